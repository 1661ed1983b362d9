package quota

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/option"
)

// A KeyedLimiter is a fleet-wide rate limit for each of many keys, such as the
// clients of a gateway. For each key it works like a [Limiter] and has the same
// bound, but callers do not wait for permits. An outage concerns the engine, not a
// key: after several failed calls in a row, the limiter stops calling it for any key.
//
// A rarely used key costs one round trip per caller. A key that is over its limit
// costs none until it may have a permit again.
//
// It remembers a bounded number of keys. Forgetting a key too early costs a round
// trip and the permits that were leased for it, but never lets a key exceed its rate.
// During an outage with FailLocalShare it can, because only the instance counts then:
// a forgotten key may get a permit too early.
//
// Create one with [NewKeyedLimiter]; the zero KeyedLimiter is not usable. It is safe
// for concurrent use. It has a goroutine for each request to the engine in flight;
// Close ends them.
type KeyedLimiter struct {
	d         *dispenser
	namespace string
	seeds     [2]maphash.Seed
	shards    []keyShard
}

// NewKeyedLimiter returns a KeyedLimiter that gets its permits from m. Its error
// joins a [*OptionError] for every option that is out of bounds. m must return soon
// after its context ends.
func NewKeyedLimiter(m fleet.Meter, o KeyedLimiterOptions) (*KeyedLimiter, error) {
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

// setKeys sets the number of keys that k remembers to n.
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

// Update replaces the options of k, except its Name and its Namespace. It does for
// each key what [Limiter.Update] does. If Keys becomes smaller, surplus keys are
// forgotten as new ones arrive.
func (k *KeyedLimiter) Update(o KeyedLimiterOptions) error {
	f := option.Faults{Package: "quota"}
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

// Allow takes a permit of key. It does not wait for a permit, only for the engine's
// response, for at most a Lease. It returns nil on success. If the key is over its
// limit, it returns a [*limit.Error] with Reason RateExceeded and the time after
// which a retry makes sense (429). During an outage with FailClosed it returns an
// [*OutageError] (503), which matches [fleet.ErrUnavailable] and also contains a
// *limit.Error. It returns ErrLimiterClosed after Close, and context.Cause(ctx) if
// ctx is done.
//
// A key may be any string. The engine gets a digest of it, never the key: SHA-256 of it and
// the Namespace. A reader of the engine can test guesses.
func (k *KeyedLimiter) Allow(ctx context.Context, key string) error {
	return k.line(key).take(ctx, false)
}

// Stats returns a snapshot of the totals over all keys.
func (k *KeyedLimiter) Stats() LimiterStats {
	s := k.d.stats()
	for i := range k.shards {
		k.shards[i].mu.Lock()
		s.Keys += len(k.shards[i].index)
		k.shards[i].mu.Unlock()
	}
	return s
}

// Close rejects all callers with ErrLimiterClosed, including those that wait. It
// waits for the requests in flight until ctx ends, and then returns the cause of ctx.
// It gives no permits back. It may be called again.
func (k *KeyedLimiter) Close(ctx context.Context) error {
	k.d.shut()
	return wait.For(ctx, k.d.work.Wait)
}

// A keyHash stands for a key of any length, so that clients cannot decide how much
// memory a key takes. Its seeds are random, so that nobody outside the process can
// predict it.
type keyHash [2]uint64

// A keyLine is a line and its position in a shard, which is guarded by the shard's
// mutex.
type keyLine struct {
	line
	hash       keyHash
	seen       time.Duration
	prev, next *keyLine
}

// A keyShard keeps its lines in the order of their last use. Its mutex is never held
// together with a line's.
type keyShard struct {
	mu     sync.Mutex
	places int                  // guarded by mu; the maximum number of lines
	index  map[keyHash]*keyLine // guarded by mu
	ring   keyLine              // guarded by mu; its next is the most recently used line
}

// keyIdle is how long an unused key is remembered if its place is not needed.
const keyIdle = time.Minute

// line returns the line of key, and marks it as the most recently used.
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
		l.d, l.key = k.d, fleet.Key{Namespace: k.namespace, Name: digest(k.namespace, key)}
		s.index[h] = l
	} else {
		l.unlink()
	}
	l.seen = max(now, l.seen)
	l.prev, l.next = &s.ring, s.ring.next
	l.prev.next, l.next.prev = l, l
	return &l.line
}

// makeRoomLocked forgets the two least recently used lines if they are idle, so that
// idle lines do not accumulate. If the shard is full, it forgets one in any case.
// Callers that wait for a response keep their line. s.mu must be held.
func (s *keyShard) makeRoomLocked(now time.Duration) {
	for range 2 {
		if l := s.ring.prev; l != &s.ring && (now-l.seen >= keyIdle || len(s.index) >= s.places) {
			l.unlink()
			delete(s.index, l.hash)
		}
	}
}

// unlink removes l from the ring.
func (l *keyLine) unlink() {
	l.prev.next, l.next.prev = l.next, l.prev
}
