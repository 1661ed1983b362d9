package disk

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/plain"
)

// A Store is an open folder. It is safe for concurrent use. Open returns one, and
// Close ends it. No method waits for the disk, except Get, the methods of an Entry,
// Sync and Close.
type Store struct {
	o     Options // with defaults
	lock  io.Closer
	log   *slog.Logger
	wake  chan struct{} // for the writer, with room for one
	kick  chan struct{} // for the goroutine that keeps the log, likewise
	stop  chan struct{} // closed by Close, once the writer has ended
	give  chan struct{} // closed when the context of Close ends
	work  sync.WaitGroup
	tend  sync.WaitGroup
	reads chan struct{} // a token for each read

	journal *journal // belongs to keepLog

	// writing is held while records are written, removing while segments are removed.
	// The order is writing, removing, mu.
	writing, removing sync.Mutex

	mu       sync.Mutex
	seq      uint64              // guarded by mu: the number of the last record or removal
	index    index               // guarded by mu
	marks    removals            // guarded by mu: by tag, and of everything
	segments []*segment          // guarded by mu: the oldest first
	files    map[uint32]*segment // guarded by mu: segments by number
	active   *segment            // guarded by mu: the last of segments, if it gets more records
	next     uint32              // guarded by mu: number of the next segment
	bytes    int64               // guarded by mu: of segments and hint files
	logged   int64               // guarded by mu: size of the log
	queue    []*item             // guarded by mu: to be written
	pending  map[id]*item        // guarded by mu: in the queue or being written, a list for each key
	queued   int64               // guarded by mu: bytes of pending
	ledger   []byte              // guarded by mu: removals that are not in the log yet
	recorded uint64              // guarded by mu: the number of the last removal for the log
	wanted   uint64              // guarded by mu: removals up to this number have to be durable
	durable  uint64              // guarded by mu: those up to this one are
	flushed  chan struct{}       // guarded by mu: closed when durable or lost changes
	paused   time.Time           // guarded by mu: nothing is written until then
	lost     error               // guarded by mu: the folder cannot be used, because of this
	closed   bool                // guarded by mu
	counts   Stats               // guarded by mu: the counters
}

// An item is a record on its way to the disk.
type item struct {
	r        Record
	p        place
	replaced bool // an older record was removed because of it
	dead     bool // guarded by Store.mu: it was removed since
	next     *item
}

func (i *item) size() int64 { return int64(i.p.meta) + int64(i.p.body) }

// maxReads is how many reads of the disk run at once.
const maxReads = 64

func newStore(o Options) *Store {
	log := slog.New(slog.DiscardHandler)
	if o.Logger != nil {
		log = plain.Logger(o.Logger)
	}
	return &Store{
		o: o, log: log,
		wake: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		stop: make(chan struct{}), give: make(chan struct{}), reads: make(chan struct{}, maxReads),
		index: newIndex(), marks: removals{}, files: map[uint32]*segment{}, pending: map[id]*item{},
		flushed: make(chan struct{}),
	}
}

// Put queues r to be written. Records that it replaces are gone at once. If r is too
// large, or the queue is full, or writing is paused, r is dropped and counted.
func (s *Store) Put(r Record) {
	i := &item{r: r}
	fits := len(r.Tags) <= maxTags && len(r.Key)+len(r.Head)+len(r.Tags)*len(id{}) <= MaxHead && int64(len(r.Body)) <= s.o.maxRecord()-maxMeta
	i.p = place{id: idOf(r.Key), variant: variantOf(r.Variant), expires: uint32(min(max(r.Expires, 0), 1<<32-1))} //nolint:gosec // bounded
	if fits {
		i.p.meta, i.p.body = uint32(r.metaSize()), uint32(len(r.Body)) //nolint:gosec // bounded
	}
	for flag, set := range map[uint8]bool{flagSoft: r.Soft, flagAll: r.All, flagTagged: len(r.Tags) > 0} {
		if set {
			i.p.flags |= flag
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	i.p.seq = s.seq
	i.replaced = s.dropLocked(i.p.id, func(p *place) bool { return r.All || p.variant == i.p.variant }) > 0
	switch {
	case s.closed:
		return
	case !fits:
		s.counts.TooBig++
	case s.lost != nil || time.Now().Before(s.paused):
		s.counts.Paused++
	case s.queued > 0 && s.queued+i.size() > s.o.QueueBytes:
		s.counts.Dropped++
	default:
		i.next = s.pending[i.p.id]
		s.pending[i.p.id] = i
		s.queue = append(s.queue, i)
		s.queued += i.size()
		signal(s.wake)
		return
	}
	s.withoutLocked(i)
}

// withoutLocked records that i will not be written: what it replaced must not come
// back. If i was removed itself, what removed it stands for the records of i's variant,
// but not for those that i replaced as the only record of its key. s.mu must be held.
func (s *Store) withoutLocked(i *item) {
	if !i.replaced || i.dead && i.p.flags&flagAll == 0 {
		return
	}
	s.recordLocked(i.p.removal())
}

// maxLedger bounds the removals that are not in the log yet. Beyond it, all records
// are removed instead.
const maxLedger = 8 << 20

// recordLocked adds a removal to the log. s.mu must be held.
func (s *Store) recordLocked(r removal) {
	if len(s.ledger) >= maxLedger {
		s.dropAllLocked()
		r, s.ledger = removal{what{kind: ofAll}, s.seq}, s.ledger[:0]
		s.marks.add(r)
	}
	s.ledger = r.append(s.ledger)
	s.seq++ // a flush of the log that has begun does not have r
	s.recorded = s.seq
	signal(s.kick)
}

// dropAllLocked removes all records, in the index and on their way to it. s.mu must
// be held.
func (s *Store) dropAllLocked() {
	s.index = newIndex()
	for _, i := range s.pending {
		for ; i != nil; i = i.next {
			i.dead = true
		}
	}
}

// dropLocked removes the records of k for which drop returns true, in the index and
// on their way to it, and returns their number. s.mu must be held.
func (s *Store) dropLocked(k id, drop func(p *place) bool) (n int) {
	for i := s.pending[k]; i != nil; i = i.next {
		if !i.dead && drop(&i.p) {
			i.dead = true
			n++
		}
	}
	return n + s.index.remove(k, func(p *slot) bool { return drop(&p.place) }, func(*slot) {})
}

// A Ticket is for Sync: it says what has to be durable. Zero means nothing.
type Ticket uint64

// Remove removes the record of a key and variant.
func (s *Store) Remove(key, variant string) Ticket {
	k, v := idOf(key), variantOf(variant)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	var only []removal // of what the dropped records had replaced besides v
	n := s.dropLocked(k, func(p *place) bool {
		if p.variant == v && p.flags&flagAll != 0 {
			only = append(only, p.removal())
		}
		return p.variant == v
	})
	if n == 0 {
		return s.nothingLocked()
	}
	for _, r := range only {
		s.recordLocked(r)
	}
	return s.wantLocked(what{kind: ofVariant, id: k, variant: v})
}

// Purge removes the records of a key, and returns their number. With soft, it expires
// them. The Ticket is zero if there is nothing to wait for.
func (s *Store) Purge(key string, soft bool) (n int, t Ticket) {
	k := idOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	w := what{kind: ofKey, id: k}
	if soft {
		w.kind = softKey
		n = s.softenLocked(k)
	} else {
		n = s.dropLocked(k, func(*place) bool { return true })
	}
	if n == 0 {
		return 0, s.nothingLocked()
	}
	return n, s.wantLocked(w)
}

// softenLocked expires the records of k, and returns their number. s.mu must be held.
func (s *Store) softenLocked(k id) (n int) {
	for i := s.pending[k]; i != nil; i = i.next {
		if !i.dead {
			i.p.flags |= flagSoft
			n++
		}
	}
	s.index.each(k, func(p *slot) bool { p.flags |= flagSoft; n++; return true })
	return n
}

// PurgeTags removes, or expires, the records that have one of the tags.
func (s *Store) PurgeTags(soft bool, tags ...string) (t Ticket) {
	kind := uint8(ofTag)
	if soft {
		kind = softTag
	}
	ids := make([]id, len(tags))
	for i, tag := range tags {
		ids[i] = idOf(tag)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	if !s.taggedLocked() {
		return s.nothingLocked()
	}
	for _, tag := range ids {
		w := what{kind: kind, id: tag}
		s.marks.add(removal{w, s.seq})
		t = s.wantLocked(w)
	}
	if len(s.marks) > 2*s.o.tagRemovals() {
		s.marks.trim(s.oldestLocked(), s.o.tagRemovals())
	}
	return t
}

// taggedLocked reports whether any record has tags. s.mu must be held.
func (s *Store) taggedLocked() bool {
	for _, g := range s.segments {
		if g.tags {
			return true
		}
	}
	for _, i := range s.pending {
		for ; i != nil; i = i.next {
			if i.p.flags&flagTagged != 0 {
				return true
			}
		}
	}
	return false
}

// PurgeAll removes, or expires, all records.
func (s *Store) PurgeAll(soft bool) Ticket {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	if len(s.segments) == 0 && len(s.pending) == 0 {
		return s.nothingLocked()
	}
	w := what{kind: ofAll}
	if soft {
		w.kind = softAll
	} else {
		s.dropAllLocked()
	}
	s.marks.add(removal{w, s.seq})
	return s.wantLocked(w)
}

// nothingLocked returns the Ticket of a removal that finds no record. An earlier one,
// which is not durable yet, may be the reason. s.mu must be held.
func (s *Store) nothingLocked() Ticket {
	if s.recorded <= s.durable {
		return 0
	}
	s.wanted = max(s.wanted, s.recorded)
	signal(s.kick)
	return Ticket(s.recorded)
}

// wantLocked adds a removal to the log, which has to be durable. s.mu must be held.
func (s *Store) wantLocked(w what) Ticket {
	s.recordLocked(removal{w, s.seq})
	s.wanted = s.recorded
	return Ticket(s.recorded)
}

// Sync waits until the removals up to t are durable, or ctx ends. The error says that
// they are not: after a restart, what they removed may be there again.
func (s *Store) Sync(ctx context.Context, t Ticket) error {
	for {
		s.mu.Lock()
		flushed, lost := s.flushed, s.lost
		switch {
		case s.durable >= uint64(t):
			s.mu.Unlock()
			return nil
		case lost == nil && s.closed && s.ended():
			lost = ErrClosed
		}
		s.mu.Unlock()
		if lost != nil {
			return lost
		}
		select {
		case <-flushed:
		case <-ctx.Done():
			return wait.Cause(ctx)
		}
	}
}

// ended reports whether the goroutines have ended, or are about to.
func (s *Store) ended() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// oldestLocked returns a number that is below those of all records. s.mu must be held.
func (s *Store) oldestLocked() uint64 {
	first := s.seq
	for _, g := range s.segments {
		if g.first > 0 {
			first = min(first, g.first-1)
			break
		}
	}
	for _, i := range s.pending {
		for ; i != nil; i = i.next {
			first = min(first, i.p.seq-1)
		}
	}
	return first
}

// Stats are the counters of a Store.
type Stats struct {
	Bound    int64 // Options.Bytes
	Bytes    int64 // of all files
	Objects  int   // in the index
	Segments int
	Queued   int64 // bytes that wait to be written

	Hits      uint64 // entries found
	Written   uint64 // records written
	Evicted   uint64 // records removed to make room
	Dropped   uint64 // not written, because the queue was full
	Paused    uint64 // not written, because writing was paused after an error
	TooBig    uint64 // not written, because they were too large
	Damaged   uint64 // records whose checksum was wrong, and files
	Errors    uint64 // failed operations on files
	Busy      uint64 // records not read, because too many reads were running
	Flushes   uint64 // flushes of the log; several removals can share one
	Removals  uint64 // in the log
	Discarded uint64 // how often all records were given up, because a removal could not be recorded
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.counts
	out.Bound, out.Bytes, out.Objects = s.o.Bytes, s.bytes+s.logged, s.index.count
	out.Segments, out.Queued = len(s.segments), s.queued
	return out
}

func (s *Store) count(f func(c *Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.counts)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // there is a signal already
	}
}
