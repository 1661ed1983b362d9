package choose

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxPairs  = 1024 // keys with their client that have failed
	maxKnown  = 4096 // keys with the server that has answered them well
	keyFor    = 10 * time.Second
	witnesses = 3
)

// keys is what is remembered of keys, in tables of fixed size. With affinity a key is seen by
// one server only, so its failure there proves nothing: it may fail everywhere. It is evidence
// if the same key of the same client succeeds elsewhere within 10 s, of which a retry is the
// test, or if keys of three clients that were answered well at the server now fail there. A
// key that fails at two servers is evidence against none.
//
// Anything without room is no evidence.
type keys struct {
	pairs [maxPairs]pair
	known [maxKnown]atomic.Uint64 // hashes of a key and a server; one that is overwritten is forgotten
}

// A pair is a key with its client.
type pair struct {
	id      atomic.Uint64 // 0 for none; written under mu
	mu      sync.Mutex
	failed  *Server // guarded by mu: where it has failed
	class   Class   // guarded by mu: how
	pending bool    // guarded by mu: that is not counted yet
	spread  bool    // guarded by mu: it has failed elsewhere as well
	good    *Server // guarded by mu: where it then succeeded
	goodAt  Instant // guarded by mu
	at      Instant // guarded by mu: the latest failure, of a spread one elsewhere
}

// A witness is a key that was answered well at a server and fails there now.
type witness struct {
	key, client uint64
	at          Instant
}

// table returns the tables of b, which most pools do not need.
func (b *Book) table() *keys {
	if k := b.keys.Load(); k != nil {
		return k
	}
	b.keys.CompareAndSwap(nil, new(keys))
	return b.keys.Load()
}

// succeeded records that a call with a key was answered well. It returns the server that has
// failed the same request before, if that is evidence now, and how.
func (k *keys) succeeded(now Instant, c *Call) (against *Server, class Class) {
	mark := Mix(c.key, c.Server.ID) | 1
	if place := &k.known[mark/2%maxKnown]; place.Load() != mark {
		place.Store(mark)
	}
	id := Mix(c.key, c.client)
	e := &k.pairs[id%maxPairs]
	if e.id.Load() != id {
		return nil, Unknown
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.id.Load() != id:
	case now > e.at.add(keyFor) || e.failed == c.Server && !e.spread:
		e.id.Store(0)
	case e.spread: // stays so for its time, or a key that fails now and then would be evidence
	default:
		e.good, e.goodAt = c.Server, now
		if e.pending {
			e.pending = false
			return e.failed, e.class
		}
	}
	return nil, Unknown
}

// failed records a failure of a call with a key, and reports whether it is evidence against
// its server.
func (k *keys) failed(now Instant, c *Call, class Class) bool {
	s := c.Server
	mark := Mix(c.key, s.ID) | 1
	proves := k.known[mark/2%maxKnown].Load() == mark && s.witnessed(now, c.key, c.client)
	id := Mix(c.key, c.client)
	e := &k.pairs[id%maxPairs]
	e.mu.Lock()
	defer e.mu.Unlock()
	current, old := e.id.Load(), now > e.at.add(keyFor)
	switch {
	case current != id && current != 0 && !old:
		return proves
	case current != id || old:
		e.id.Store(id)
		e.failed, e.class, e.pending, e.spread, e.good = s, class, !proves, false, nil
	case e.spread:
		if s == e.failed {
			return false
		}
		proves = false
	case e.good != nil && e.good != s && e.failed == s && now <= e.goodAt.add(keyFor):
		proves = true
	case e.failed == s:
		e.class, e.pending = class, !proves
	default:
		e.spread, proves = true, false
	}
	e.at = now
	return proves
}

// witnessed records that a key of a client, which was answered well at s, fails there, and
// reports whether three do that: three keys of three clients.
func (s *Server) witnessed(now Instant, key, client uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest, known, live := 0, false, 0
	for i := range s.witnesses {
		w := &s.witnesses[i]
		if w.at != 0 && now <= w.at.add(keyFor) {
			live++
			if w.key == key || w.client == client {
				w.at, known = now, true
			}
		}
		if w.at < s.witnesses[oldest].at {
			oldest = i
		}
	}
	if !known {
		if s.witnesses[oldest].at == 0 || now > s.witnesses[oldest].at.add(keyFor) {
			live++
		}
		s.witnesses[oldest] = witness{key, client, now}
	}
	return live == witnesses
}
