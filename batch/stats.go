package batch

// Stats are counts since New, and a few numbers as they stand now.
type Stats struct {
	Calls    uint64 // of Do, that were not refused
	Refused  uint64 // calls of Do that found no room, and batches that the limiter refused
	Batches  uint64 // bulk calls
	Full     uint64 // of them with MaxSize items; the others did not wait for more
	Items    uint64 // in all bulk calls
	Retries  uint64 // of them tried again alone
	Failures uint64 // items whose caller got an error of their bulk call

	Timeouts  uint64 // bulk calls that outlived Timeout
	Panics    uint64 // bulk calls that panicked or called runtime.Goexit
	Abandoned uint64 // bulk calls that were canceled since nobody waited

	// As it stands now.
	Pending int // items that wait or run
	Running int // bulk calls that have not returned
	Stuck   int // of them beyond Timeout
}

// Stats returns the Batcher's counts, all of the same instant.
func (b *Batcher[T, R]) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.count
	s.Pending = b.pending
	return s
}
