package batch

// Stats are counters since New, and a few current values.
type Stats struct {
	Calls    uint64 // calls of Do that were not rejected
	Refused  uint64 // calls of Do that found no room, and batches that were rejected
	Batches  uint64 // bulk calls
	Full     uint64 // batches that started with MaxSize items; the others started before they were full
	Items    uint64 // items in all bulk calls
	Retries  uint64 // items retried alone
	Failures uint64 // items whose caller got an error of their bulk call

	Timeouts  uint64 // bulk calls that exceeded Timeout
	Panics    uint64 // bulk calls that panicked or called runtime.Goexit
	Abandoned uint64 // bulk calls that were canceled because all callers had left

	// Current values.
	Pending int // items that wait or run
	Running int // bulk calls that have not returned
	Stuck   int // running bulk calls that have exceeded Timeout
}

// Stats returns a snapshot. All values are from the same instant.
func (b *Batcher[T, R]) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.count
	s.Pending = b.pending
	return s
}
