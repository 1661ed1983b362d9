package responses

import (
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A Key is what a response is stored under: the URL as it is forwarded (H9).
// Keys are compared whole, part by part.
type Key struct {
	Scheme string // "http" or "https"
	Host   string // with the port, as the client sent it
	Target string // path and query, as the client sent them
}

// Options configure a Store.
type Options struct {
	// Bytes is the bound, for all that is stored and reserved. One response, and
	// the variants of one key together, have at most half of it. 0 or less
	// stores nothing.
	Bytes int64
	// Variants is how many responses one key may have; the one that was stored
	// first goes. 0 means 32.
	Variants int
}

// defaultVariants is how many responses one key may have by default.
const defaultVariants = 32

// A Store is safe for concurrent use. Make one with New. It has no goroutine of
// its own to close.
type Store struct {
	bytes    int64 // the bound
	half     int64 // what one key, and all buffers together, may have of it
	variants int
	unit     int64 // bytes to one unit of weight in the cache below

	// space is replaced by Clear, with mu held. Readers take it without.
	space atomic.Pointer[space]

	mu       sync.Mutex
	reserved int64          // guarded by mu: what flights hold
	margin   int64          // guarded by mu: what is withheld from the cache below, at least reserved
	writing  map[Key]*Write // guarded by mu: running writes, a list for each key
	tags     tagTable       // guarded by mu
	counts   counts         // guarded by mu
}

// counts are the counters of Stats, but for evictions, which are not counted
// under the lock.
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
	s.unit = 1 + s.bytes>>32 // a weight is an uint32
	s.margin = s.step()
	s.tags.init()
	s.space.Store(s.newSpace())
	return s
}

// Get returns the stored response for a request with fields h, nil if there is
// none. Of several that match it is the one that was stored last. A response
// that was invalidated by a tag is none. It takes no lock, and allocates
// nothing.
func (s *Store) Get(k Key, h http.Header) *Stored {
	l, ok := s.space.Load().cache.GetIfPresent(k)
	if !ok {
		return nil
	}
	for _, r := range l.all {
		if r.outdated() {
			continue
		}
		if len(r.Vary) == 0 || rfc9111.Matches(r.Vary, r.Selected, h) {
			r.soften()
			return r
		}
	}
	return nil
}

// Variants returns all responses that are stored under k, newest first.
func (s *Store) Variants(k Key) []*Stored {
	var all []*Stored
	for _, r := range s.space.Load().peek(k).all {
		if !r.outdated() {
			r.soften()
			all = append(all, r)
		}
	}
	return all
}

// Vary returns the selecting names of the newest response of k, and whether
// there is one.
func (s *Store) Vary(k Key) ([]string, bool) {
	for _, r := range s.space.Load().peek(k).all {
		if !r.outdated() {
			return r.Vary, true
		}
	}
	return nil, false
}

// Each calls f with all that is stored, one after another while it is used, without
// that counting as use. What was invalidated by a tag is outdated: it is there
// until it is met. No lock is held meanwhile.
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

// Stats are those of a Store. They were true at about the same instant; for
// Used and Reserved there was one at which both were, so that their sum is never
// above Bytes.
type Stats struct {
	Bytes     int64  // the bound
	Used      int64  // what is stored
	Reserved  int64  // what flights hold
	Responses int    // with their variants
	Stored    uint64 // by Put and Replace
	Evicted   uint64 // to make room
	Refused   uint64 // not stored, as what is there is used more, or there was no room
	TooBig    uint64 // not stored, as they are bigger than half of the bound
	Overtaken uint64 // not stored, because of an invalidation
	Purged    uint64 // by Purge, also softly, by Clear, and by tags when they were met
}

// Stats returns a snapshot.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.space.Load()
	return Stats{
		Bytes:     s.bytes,
		Used:      sp.used.Load(), // only falls while mu is held
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
