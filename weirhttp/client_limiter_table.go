package weirhttp

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"
)

// A meter is the arithmetic of token buckets that are all of one kind. What was
// taken and has not come back yet is the debt of a bucket, in a unit of which a
// token and a nanosecond both have a whole number. So it is exact: no rate is
// rounded.
type meter struct {
	token    int64         // units of a token
	perNano  int64         // units that come back in a nanosecond
	capacity int64         // units of a full bucket
	refill   time.Duration // in which an empty bucket is full again, rounded up
}

// newMeter returns the meter of o, which has its defaults.
func newMeter(o ClientLimiterOptions) meter {
	a, b := int64(o.Per), int64(o.Rate)
	for b != 0 {
		a, b = b, a%b
	}
	m := meter{token: int64(o.Per) / a, perNano: int64(o.Rate) / a}
	if o.Burst <= m.mostBurst() {
		m.capacity = int64(o.Burst) * m.token
		m.refill = m.time(m.capacity)
	}
	return m
}

// mostBurst is how many tokens fit into a bucket.
func (m meter) mostBurst() int { return int(min(maxDebt/m.token, math.MaxInt)) }

// time returns how long it takes for units to come back, rounded up.
func (m meter) time(units int64) time.Duration {
	return time.Duration((units + m.perNano - 1) / m.perNano)
}

// take takes a token if there is one, out of a bucket whose debt was last
// written down elapsed ago. It returns the debt now, how many tokens are left,
// and in what time as many come back; or without any, when the next one comes.
func (m meter) take(debt int64, elapsed time.Duration) (now, left int64, wait time.Duration, ok bool) {
	debt = m.debtAt(debt, elapsed)
	if ok = debt+m.token <= m.capacity; ok {
		debt += m.token
	}
	if left = (m.capacity - debt) / m.token; left > 0 {
		return debt, left, m.time(left * m.token), ok
	}
	return debt, 0, m.time(debt + m.token - m.capacity), ok
}

// debtAt returns what is left of a debt that was written down elapsed ago.
func (m meter) debtAt(debt int64, elapsed time.Duration) int64 {
	if elapsed >= m.refill {
		return 0 // the product below might overflow
	}
	return max(0, debt-max(0, int64(elapsed))*m.perNano)
}

// convert returns the debt of as many tokens as debt is of another meter, rounded up, or
// all that a bucket holds.
func (m meter) convert(debt int64, of meter) int64 {
	hi, lo := bits.Mul64(uint64(debt), uint64(m.token))
	lo, carry := bits.Add64(lo, uint64(of.token-1), 0)
	hi += carry
	if hi >= uint64(of.token) {
		return m.capacity
	}
	q, _ := bits.Div64(hi, lo, uint64(of.token))
	return int64(min(q, uint64(m.capacity)))
}

// fullAt returns when a bucket is full whose debt was true at seen.
func (m meter) fullAt(debt int64, seen time.Duration) time.Duration {
	if d := m.time(debt); d <= math.MaxInt64-seen {
		return seen + d
	}
	return math.MaxInt64
}

// A clientTable holds the buckets of a bounded number of keys, in shards that do
// not share a lock.
type clientTable struct {
	seeds  [2]maphash.Seed
	shards []clientShard
}

// A clientKey is a hash that nobody outside can foresee. It stands for a key of
// any length: what a client sends does not decide how much is remembered.
type clientKey [2]uint64

// A clientShard keeps its buckets in the order in which they were last seen, and
// in a heap by when they are full.
type clientShard struct {
	mu      sync.Mutex
	meter   meter               // guarded by mu, as all below; the same in all shards but while they are updated
	places  int                 // how many buckets there may be
	index   map[clientKey]int32 // places in buckets
	buckets []clientBucket      // the first is the head of the ring
	free    int32               // first of the unused, linked by next; 0 means none
	due     []int32             // places in buckets, a heap by their due
}

// A clientBucket is one client's. They form a ring: after the head comes the one
// that was seen last.
type clientBucket struct {
	key        clientKey
	debt       int64
	seen       time.Duration // since the limiter's start, when debt was true
	due        time.Duration // full no sooner than this: later tokens do not move it
	prev, next int32
	pos        int32 // in the heap
}

// newClientTable returns a table for n keys.
func newClientTable(n int, m meter) *clientTable {
	t := &clientTable{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	shards := 1
	for shards < 64 && n/shards >= 2048 {
		shards *= 2
	}
	t.shards = make([]clientShard, shards)
	for i := range t.shards {
		s := &t.shards[i]
		s.meter = m
		s.index = make(map[clientKey]int32)
		s.buckets = make([]clientBucket, 1)
	}
	t.update(n, m, 0)
	return t
}

// update gives the table places for n keys, and buckets of m. Of those that are in use
// as many tokens are missing as before, or all that the new ones hold. More buckets than
// n make room for others one by one.
func (t *clientTable) update(n int, m meter, now time.Duration) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.places = n / len(t.shards)
		if i < n%len(t.shards) {
			s.places++
		}
		s.places = max(1, s.places)
		if m != s.meter {
			s.changeLocked(m, now)
		}
		s.mu.Unlock()
	}
}

// changeLocked has the buckets be of m. s.mu must be held.
func (s *clientShard) changeLocked(m meter, now time.Duration) {
	for _, i := range s.due {
		b := &s.buckets[i]
		b.debt = m.convert(s.meter.debtAt(b.debt, now-b.seen), s.meter)
		b.seen = max(b.seen, now)
		b.due = m.fullAt(b.debt, b.seen)
	}
	s.meter = m
	for pos := len(s.due)/2 - 1; pos >= 0; pos-- {
		s.sinkLocked(pos)
	}
}

// take takes a token out of the bucket of key, see meter.take. If there is no
// place for a new key, it forgets the longest unseen one.
func (t *clientTable) take(key string, now time.Duration) (left int64, wait time.Duration, ok bool) {
	left, wait, ok, _ = t.claim(key, now, true)
	return left, wait, ok
}

// claim is take, but without forget it does not forget a key that has spent
// tokens: room is false if there is no place for this one then, and nothing was
// taken.
func (t *clientTable) claim(key string, now time.Duration, forget bool) (left int64, wait time.Duration, ok, room bool) {
	k := clientKey{maphash.String(t.seeds[0], key), maphash.String(t.seeds[1], key)}
	s := &t.shards[k[0]%uint64(len(t.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	i, known := s.index[k]
	if known {
		s.unlinkLocked(i)
	} else if i = s.placeLocked(k, now, forget); i == 0 {
		return 0, 0, false, false
	}
	s.linkLocked(i)
	b := &s.buckets[i]
	b.debt, left, wait, ok = s.meter.take(b.debt, now-b.seen)
	b.seen = max(b.seen, now) // who read the clock first may come last
	if !known {
		b.due = s.meter.fullAt(b.debt, b.seen)
		s.pushLocked(i)
	}
	return left, wait, ok, true
}

// placeLocked returns the place of a new, full bucket, in neither ring nor heap
// yet. It forgets up to two that are full again, so that there are never many of
// these for long. If there is no place then, it forgets the longest unseen one,
// or without forget returns 0. s.mu must be held.
func (s *clientShard) placeLocked(k clientKey, now time.Duration, forget bool) int32 {
	for range 2 {
		if i := s.fullLocked(now); i != 0 {
			s.forgetLocked(i)
		}
	}
	if len(s.index) >= s.places {
		if !forget {
			return 0
		}
		s.forgetLocked(s.buckets[0].prev)
	}
	i := s.free
	if i != 0 {
		s.free = s.buckets[i].next
	} else {
		i = int32(len(s.buckets))
		s.buckets = append(s.buckets, clientBucket{})
	}
	s.buckets[i] = clientBucket{key: k, seen: now}
	s.index[k] = i
	return i
}

// forgetLocked makes place i free. s.mu must be held.
func (s *clientShard) forgetLocked(i int32) {
	s.unlinkLocked(i)
	s.removeLocked(i)
	delete(s.index, s.buckets[i].key)
	s.buckets[i] = clientBucket{next: s.free}
	s.free = i
}

// unlinkLocked takes i out of the ring. s.mu must be held.
func (s *clientShard) unlinkLocked(i int32) {
	b := &s.buckets[i]
	s.buckets[b.prev].next = b.next
	s.buckets[b.next].prev = b.prev
}

// linkLocked puts i into the ring as the one that was seen last. s.mu must be
// held.
func (s *clientShard) linkLocked(i int32) {
	first := s.buckets[0].next
	s.buckets[i].prev, s.buckets[i].next = 0, first
	s.buckets[first].prev = i
	s.buckets[0].next = i
}
