package fleet

import (
	"context"
	"crypto/sha512"
	"encoding/hex"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/option"
)

// A KeyedLimiter is a rate limit of the whole fleet for each of many keys, such as the
// clients of a gateway. For each it is what a [Limiter] is for one, and gives
// the same bound; callers do not wait for permits. An outage is of the engine,
// not of a key: once a few questions have failed in a row, no key asks.
//
// A key that is seldom seen costs a round trip a caller. One that is over its
// limit costs none until it may have a permit again.
//
// It remembers a bounded number of keys. One that is forgotten too early costs a
// round trip, and the permits that were leased for it: nobody has more than its
// rate by it. In an outage with FailLocalShare it is different, as nobody but
// the instance counts: a key that was forgotten may have a permit too early.
//
// Make one with [NewKeyedLimiter]; the zero KeyedLimiter is not usable. It is safe for
// concurrent use. It has a goroutine for each request to the engine in flight; Close
// ends them.
type KeyedLimiter struct {
	d         *dispenser
	namespace string
	seeds     [2]maphash.Seed
	shards    []keyShard
}

// NewKeyedLimiter returns a KeyedLimiter that has its permits from m. Its error joins a
// [*OptionError] for every option that is out of bounds. m must return
// soon after its context ends.
func NewKeyedLimiter(m Meter, o KeyedLimiterOptions) (*KeyedLimiter, error) {
	if err := o.validate(m); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	k := &KeyedLimiter{
		d:         newDispenser(m, newLineTerms(o.Terms, 0, 0)),
		namespace: o.Namespace,
		seeds:     [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()},
	}
	n := 1
	for n < 64 && o.Keys/n >= 2048 {
		n *= 2
	}
	k.shards = make([]keyShard, n)
	for i := range k.shards {
		s := &k.shards[i]
		s.index = make(map[keyHash]*keyLine)
		s.ring.prev, s.ring.next = &s.ring, &s.ring
	}
	k.setKeys(o.Keys)
	return k, nil
}

// setKeys has k remember n keys.
func (k *KeyedLimiter) setKeys(n int) {
	for i := range k.shards {
		s := &k.shards[i]
		s.mu.Lock()
		s.places = n / len(k.shards)
		if i < n%len(k.shards) {
			s.places++
		}
		s.places = max(1, s.places)
		s.mu.Unlock()
	}
}

// Update replaces what k was made with, except its Name and its Namespace. It is for each key what [Limiter.Update] is. Keys beyond fewer Keys are forgotten as
// others come.
func (k *KeyedLimiter) Update(o KeyedLimiterOptions) error {
	f := option.Faults{Package: "fleet"}
	f.Check(o.Name == k.d.terms.Load().Name, "KeyedLimiterOptions.Name", o.Name, "the one it was made with")
	f.Check(o.Namespace == k.namespace, "KeyedLimiterOptions.Namespace", o.Namespace, "the one it was made with")
	f.Add(o.validate(k.d.meter))
	if err := f.Err(); err != nil {
		return err
	}
	o = o.withDefaults()
	k.d.terms.Store(newLineTerms(o.Terms, 0, 0))
	k.setKeys(o.Keys)
	return nil
}

// Allow takes a permit of key, and does not wait for one; it waits for the
// engine's answer, a Lease at most. It returns nil, a [*limit.Error] with Reason
// RateExceeded and the time until it is worth to try again (429), an
// [*OutageError] under FailClosed (503: it matches [ErrUnavailable], and has a
// *limit.Error in it too), ErrLimiterClosed after Close, or context.Cause(ctx)
// if ctx is done.
//
// A key may be any string. The engine gets the hash (SHA-512) of one of more
// than 128 bytes.
func (k *KeyedLimiter) Allow(ctx context.Context, key string) error {
	return k.line(key).take(ctx, false)
}

// Stats returns a snapshot, of all keys together.
func (k *KeyedLimiter) Stats() LimiterStats {
	s := k.d.stats()
	for i := range k.shards {
		k.shards[i].mu.Lock()
		s.Keys += len(k.shards[i].index)
		k.shards[i].mu.Unlock()
	}
	return s
}

// Close rejects all callers with ErrLimiterClosed, waiting ones included. It
// waits for the requests in flight until ctx ends, and then returns its cause.
// It gives nothing back. It may be called again.
func (k *KeyedLimiter) Close(ctx context.Context) error {
	k.d.shut()
	return wait.For(ctx, k.d.work.Wait)
}

// A keyHash stands for a key of any length, so that what a client sends does not
// decide how much is remembered. Nobody outside can foresee it.
type keyHash [2]uint64

// A keyLine is a line and its place in a shard, which is guarded by the shard's
// mutex.
type keyLine struct {
	line
	hash       keyHash
	seen       time.Duration
	prev, next *keyLine
}

// A keyShard keeps its lines in the order in which they were last seen. Its mutex
// is never held together with a line's.
type keyShard struct {
	mu     sync.Mutex
	places int                  // guarded by mu; how many lines there may be
	index  map[keyHash]*keyLine // guarded by mu
	ring   keyLine              // guarded by mu; its next was seen last
}

// keyIdle is how long a key is remembered that is not seen, if there is no need
// for its place.
const keyIdle = time.Minute

// line returns the line of key, which is then the one that was seen last.
func (k *KeyedLimiter) line(key string) *line {
	h := keyHash{maphash.String(k.seeds[0], key), maphash.String(k.seeds[1], key)}
	s := &k.shards[h[0]%uint64(len(k.shards))]
	now := k.d.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.index[h]
	if l == nil {
		s.makeRoomLocked(now)
		l = &keyLine{hash: h}
		l.d, l.key = k.d, Key{Namespace: k.namespace, Name: keyName(key)}
		s.index[h] = l
	} else {
		l.unlink()
	}
	l.seen = max(now, l.seen)
	l.prev, l.next = &s.ring, s.ring.next
	l.prev.next, l.next.prev = l, l
	return &l.line
}

// makeRoomLocked forgets the two longest unseen if they are idle, so that there
// are never many of these for long, and one in any case if there is no place
// else. Callers that wait for an answer keep their line. s.mu must be held.
func (s *keyShard) makeRoomLocked(now time.Duration) {
	for range 2 {
		if l := s.ring.prev; l != &s.ring && (now-l.seen >= keyIdle || len(s.index) >= s.places) {
			l.unlink()
			delete(s.index, l.hash)
		}
	}
}

// unlink takes l out of the ring.
func (l *keyLine) unlink() {
	l.prev.next, l.next.prev = l.next, l.prev
}

// maxKeyName is how long a key may be, in bytes, to be sent to the engine.
// Longer ones have a name that is longer too, and so is never another's.
const maxKeyName = 128

// keyName returns the name under which the engine counts for key, on all
// instances alike.
func keyName(key string) string {
	if len(key) <= maxKeyName {
		return strings.Clone(key) // which may be a part of a large request
	}
	sum := sha512.Sum512([]byte(key))
	return "#" + hex.EncodeToString(sum[:])
}
