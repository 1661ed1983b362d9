package responses

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/disk"
	"github.com/weir-go/weir/internal/rfc9111"
)

// A Key identifies a stored response: the URL as it is forwarded (H9). Keys are
// compared in full, part by part.
type Key struct {
	Scheme string // "http" or "https"
	Host   string // with the port, as the client sent it
	Target string // path and query, as the client sent them
	// Body is for a read with a body, else empty: half of a digest over its method, its
	// body, and the fields about that. See Stored.Proof.
	Body string
	// apart is not zero for responses that are stored apart from the others of the URL.
	apart half
}

// Whole returns k without its body: the key of a GET of its URL.
func (k Key) Whole() Key {
	k.Body = ""
	return k
}

// Options configure a Store.
type Options struct {
	// Bytes is the bound for everything stored and reserved. A single response,
	// and all variants of one key together, may take at most half of it. If it is
	// 0 or negative, nothing is stored.
	Bytes int64
	// Variants is the number of responses that one key can have, unless Stored.Room
	// says otherwise; beyond it, the one used least is evicted. 0 means 32.
	Variants int
}

// defaultVariants is the default number of responses that one key can have.
const defaultVariants = 32

// A Store is safe for concurrent use. Create one with New. It has no goroutines
// and needs no Close.
type Store struct {
	bytes    int64 // the bound
	half     int64 // the most that one key, or all buffers together, may take
	variants int
	unit     int64 // bytes per unit of weight in the underlying cache

	// Clear replaces space with mu held. Readers load it without mu.
	space atomic.Pointer[space]

	mu       sync.Mutex
	reserved int64          // guarded by mu: bytes held by flights
	margin   int64          // guarded by mu: bytes withheld from the underlying cache, at least reserved
	writing  map[Key]*Write // guarded by mu: running writes, one linked list per key
	tags     tagTable       // guarded by mu
	counts   counts         // guarded by mu
	order    uint64         // guarded by mu: of the last response that was stored
	hasDisk  atomic.Bool
	disk     *disk.Store // guarded by mu: the second tier, or nil; see hasDisk
	ticket   disk.Ticket // guarded by mu: of the last purge on the disk
}

// counts holds the counters of Stats. Evictions are also counted outside the
// lock, in space.
type counts struct {
	stored, evicted, refused, tooBig, overtaken, purged uint64
}

// New returns an empty Store.
func New(o Options) *Store {
	s := &Store{
		bytes:    max(o.Bytes, 0),
		half:     max(o.Bytes, 0) / 2,
		variants: o.Variants,
		writing:  map[Key]*Write{},
	}
	if s.variants <= 0 {
		s.variants = defaultVariants
	}
	s.unit = 1 + s.bytes>>32 // because a weight is a uint32
	s.margin = s.step()
	s.tags.init()
	s.space.Store(s.newSpace())
	return s
}

// Get returns the complete response that is stored for the request q, or nil. If
// several match, it returns the one stored last. It never returns a response
// that was invalidated by a tag. It takes no lock and allocates nothing.
func (s *Store) Get(k Key, q *rfc9111.Request) *Stored { return s.Find(k, "", q) }

// Find is Get for a read with a body: the response must have this proof.
func (s *Store) Find(k Key, proof string, q *rfc9111.Request) *Stored {
	return s.space.Load().newest(k, proof, q, false)
}

// Part returns the incomplete response that is stored for the request q, or nil if
// there is none, or if a newer response that is complete matches as well.
// Otherwise it is like Get.
func (s *Store) Part(k Key, q *rfc9111.Request) *Stored {
	if r := s.space.Load().newest(k, "", q, true); r != nil && r.Partial != nil {
		return r
	}
	return nil
}

// Variants returns all responses stored under k, newest first, with incomplete ones.
func (s *Store) Variants(k Key) []*Stored {
	all := slices.DeleteFunc(s.space.Load().at(k, 0), (*Stored).outdated)
	slices.SortFunc(all, func(a, b *Stored) int { return cmp.Compare(b.order, a.order) })
	for _, r := range all {
		r.soften()
	}
	return all
}

// Vary returns the selecting names of the newest complete response of k, and whether
// there is one.
func (s *Store) Vary(k Key) ([]string, bool) {
	sp := s.space.Load()
	for _, r := range sp.peek(k).all {
		if r.Partial == nil && !r.outdated() {
			return r.Vary, true
		}
	}
	if f := sp.family(k); f != nil {
		if ways := *f.ways.Load(); len(ways) > 0 {
			return ways[len(ways)-1].vary, true
		}
	}
	return nil, false
}

// Each calls f for each stored response, while the store stays in use and without
// counting as a use. A response that was invalidated by a tag is passed as
// outdated; it stays until a write to its key finds it. No lock is held during
// the calls.
func (s *Store) Each(f func(r *Stored, outdated bool)) {
	for l := range s.space.Load().cache.Values() {
		for _, r := range l.all {
			outdated := r.outdated()
			if !outdated {
				r.soften()
			}
			f(r, outdated)
		}
	}
}

// Stats holds the counters of a Store, read at about the same instant. Used and
// Reserved are consistent with each other: their sum is never above Bytes.
type Stats struct {
	Bytes     int64  // the bound
	Used      int64  // bytes stored
	Reserved  int64  // bytes held by flights
	Responses int    // including variants
	Stored    uint64 // by Put and Replace
	Evicted   uint64 // to make room
	Refused   uint64 // not stored, because the stored responses are used more, or there was no room
	TooBig    uint64 // not stored, because larger than half of the bound
	Overtaken uint64 // not stored, because of an invalidation
	Purged    uint64 // by Purge (soft ones too), by Clear, and by tags once a write found them
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.space.Load()
	return Stats{
		Bytes:     s.bytes,
		Used:      sp.used.Load(), // can only fall while mu is held
		Reserved:  s.reserved,
		Responses: int(sp.responses.Load()),
		Stored:    s.counts.stored,
		Evicted:   s.counts.evicted + sp.evicted.Load(),
		Refused:   s.counts.refused,
		TooBig:    s.counts.tooBig,
		Overtaken: s.counts.overtaken,
		Purged:    s.counts.purged,
	}
}
