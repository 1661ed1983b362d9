package weirhttp

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"time"
)

// A meter is the arithmetic of token buckets of one kind. The debt of a bucket is
// what was taken from it and has not come back yet. Its unit is chosen so that the
// values of a token and of a nanosecond are whole numbers. So it is exact: no rate is
// rounded. A ClientBudget counts in milliseconds instead.
type meter struct {
	token    int64         // units in a token
	perNano  int64         // units that come back per nanosecond
	capacity int64         // units in a full bucket
	most     int64         // largest debt; above capacity, tokens are owed
	refill   time.Duration // time in which the largest debt has come back, rounded up
}

// newMeter returns the meter of o, whose defaults are set.
func newMeter(o ClientLimiterOptions) meter {
	a, b := int64(o.Per), int64(o.Rate)
	for b != 0 {
		a, b = b, a%b
	}
	m := meter{token: int64(o.Per) / a, perNano: int64(o.Rate) / a}
	if o.Burst <= m.mostBurst() {
		m.capacity = int64(o.Burst) * m.token
		m.most = m.capacity
		m.refill = m.time(m.most)
	}
	return m
}

// mostBurst is how many tokens fit into a bucket.
func (m meter) mostBurst() int { return int(min(maxDebt/m.token, math.MaxInt)) }

// time returns how long it takes for units to come back, rounded up.
func (m meter) time(units int64) time.Duration {
	return time.Duration((units + m.perNano - 1) / m.perNano)
}

// take takes a token if there is one, out of a bucket whose debt was last recorded
// elapsed ago. It returns the debt now, how many tokens are left, and the time in
// which as many come back. If none is left, wait is the time until the next one
// comes.
func (m meter) take(debt int64, elapsed time.Duration) (now, left int64, wait time.Duration, ok bool) {
	return m.takeN(debt, elapsed, 1)
}

// takeN is take for n tokens at once, no more than a full bucket has. If fewer than n are
// left, wait is the time until there are n.
func (m meter) takeN(debt int64, elapsed time.Duration, n int64) (now, left int64, wait time.Duration, ok bool) {
	debt = m.debtAt(debt, elapsed)
	if ok = debt+n*m.token <= m.capacity; ok {
		debt += n * m.token
	}
	left = max(0, (m.capacity-debt)/m.token)
	if left >= n {
		return debt, left, m.time(left * m.token), ok
	}
	return debt, left, m.time(debt - m.capacity + n*m.token), ok
}

// debtAt returns what is left of a debt that was recorded elapsed ago.
func (m meter) debtAt(debt int64, elapsed time.Duration) int64 {
	if elapsed >= m.refill {
		return 0 // the product below might overflow
	}
	return max(0, debt-max(0, int64(elapsed))*m.perNano)
}

// convert converts a debt of the meter of into one of m with the same number of
// tokens, rounded up, and at most m.most.
func (m meter) convert(debt int64, of meter) int64 {
	hi, lo := bits.Mul64(uint64(debt), uint64(m.token))
	lo, carry := bits.Add64(lo, uint64(of.token-1), 0)
	hi += carry
	if hi >= uint64(of.token) {
		return m.most
	}
	q, _ := bits.Div64(hi, lo, uint64(of.token))
	return int64(min(q, uint64(m.most)))
}

// fullAt returns when a bucket whose debt was correct at seen will be full.
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

// A clientKey is a hash that outsiders cannot predict. It stands for a key of any
// length: clients do not control how much is remembered.
type clientKey [2]uint64

// A clientShard keeps its buckets in the order in which they were last seen, and in a
// heap by the time when they are full.
type clientShard struct {
	mu      sync.Mutex
	meter   meter               // guarded by mu, as all below; the same in all shards except during update
	places  int                 // the maximum number of buckets
	index   map[clientKey]int32 // indexes into buckets
	buckets []clientBucket      // the first is the head of the ring
	free    int32               // first unused bucket, linked by next; 0 means none
	due     []int32             // indexes into buckets, a heap by due
	open    map[int32][]*bill   // the bills of each bucket that are not closed, in order; nil without a ClientBudget
}

// A clientBucket is one client's bucket. The buckets form a ring: after the head
// comes the most recently seen one.
type clientBucket struct {
	key        clientKey
	debt       int64
	seen       time.Duration // since the limiter's start; debt was correct then
	due        time.Duration // not full before this; later tokens do not move it
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

// update gives the table places for n keys, and buckets of m. A bucket in use keeps
// its number of missing tokens, at most all of the new size. If there are more than n
// buckets, new ones replace them one by one.
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

// changeLocked converts the buckets to m. s.mu must be held.
func (s *clientShard) changeLocked(m meter, now time.Duration) {
	for _, i := range s.due {
		b := &s.buckets[i]
		b.debt = m.convert(s.meter.debtAt(b.debt, now-b.seen), s.meter)
		b.seen = max(b.seen, now)
		b.due = m.fullAt(b.debt, b.seen)
		s.changedLocked(i)
	}
	s.meter = m
	for pos := len(s.due)/2 - 1; pos >= 0; pos-- {
		s.sinkLocked(pos)
	}
}

// take takes a token out of the bucket of key; see meter.take. If there is no place
// for a new key, it forgets the least recently seen one.
func (t *clientTable) take(key string, now time.Duration) (left int64, wait time.Duration, ok bool) {
	left, wait, ok, _ = t.claim(key, now, true)
	return left, wait, ok
}

// claim is take, but without forget it does not forget a key that has spent tokens.
// In that case, if there is no place for key, room is false and nothing was taken.
func (t *clientTable) claim(key string, now time.Duration, forget bool) (left int64, wait time.Duration, ok, room bool) {
	return t.claimN(key, 1, now, forget, nil)
}

// claimN is claim for n tokens at once. If they were taken and p is not nil, p stands for
// them.
func (t *clientTable) claimN(key string, n int64, now time.Duration, forget bool, p *bill) (left int64, wait time.Duration, ok, room bool) {
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
	b.debt, left, wait, ok = s.meter.takeN(b.debt, now-b.seen, n)
	b.seen = max(b.seen, now) // the request that read the clock first may get here last
	if !known {
		b.due = s.meter.fullAt(b.debt, b.seen)
		s.pushLocked(i)
	}
	if ok && p != nil {
		s.openLocked(i, p, n)
	}
	return left, wait, ok, true
}

// placeLocked returns the index of a new, full bucket that is not yet in the ring or
// the heap. It forgets up to two buckets that are full again, so that many of them
// never pile up. If there is still no place, it forgets the least recently seen one,
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

// forgetLocked frees bucket i. s.mu must be held.
func (s *clientShard) forgetLocked(i int32) {
	s.lostLocked(i)
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

// linkLocked puts i into the ring as the most recently seen bucket. s.mu must be
// held.
func (s *clientShard) linkLocked(i int32) {
	first := s.buckets[0].next
	s.buckets[i].prev, s.buckets[i].next = 0, first
	s.buckets[first].prev = i
	s.buckets[0].next = i
}
