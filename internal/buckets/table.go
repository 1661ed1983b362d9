package buckets

import (
	"hash/maphash"
	"sync"
	"time"
)

// A Table holds the buckets of a bounded number of keys, in shards that do
// not share a lock.
type Table struct {
	seeds  [2]maphash.Seed
	shards []shard
}

// A keyHash is a hash that outsiders cannot predict. It stands for a key of any
// length: clients do not control how much is remembered.
type keyHash [2]uint64

// A shard keeps its buckets in the order in which they were last seen, and in a
// heap by the time when they are full.
type shard struct {
	mu      sync.Mutex
	meter   Meter             // guarded by mu, as all below; the same in all shards except during update
	places  int               // the maximum number of buckets
	index   map[keyHash]int32 // indexes into buckets
	buckets []bucket          // the first is the head of the ring
	free    int32             // first unused bucket, linked by next; 0 means none
	due     []int32           // indexes into buckets, a heap by due
	open    map[int32][]*Bill // the bills of each bucket that are not closed, in order; nil without bills
}

// A bucket is one client's bucket. The buckets form a ring: after the head
// comes the most recently seen one.
type bucket struct {
	key        keyHash
	debt       int64
	seen       time.Duration // since the limiter's start; debt was correct then
	due        time.Duration // not full before this; later tokens do not move it
	prev, next int32
	pos        int32 // in the heap
}

// NewTable returns a table for n keys.
func NewTable(n int, m Meter) *Table {
	t := &Table{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	shards := 1
	for shards < 64 && n/shards >= 2048 {
		shards *= 2
	}
	t.shards = make([]shard, shards)
	for i := range t.shards {
		s := &t.shards[i]
		s.meter = m
		s.index = make(map[keyHash]int32)
		s.buckets = make([]bucket, 1)
	}
	t.Update(n, m, 0)
	return t
}

// Update gives the table places for n keys, and buckets of m. A bucket in use keeps
// its number of missing tokens, at most all of the new size. If there are more than n
// buckets, new ones replace them one by one.
func (t *Table) Update(n int, m Meter, now time.Duration) {
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
func (s *shard) changeLocked(m Meter, now time.Duration) {
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

// Take takes a token out of the bucket of key; see meter.take. If there is no place
// for a new key, it forgets the least recently seen one.
func (t *Table) Take(key string, now time.Duration) (left int64, wait time.Duration, ok bool) {
	left, wait, ok, _ = t.Claim(key, now, true)
	return left, wait, ok
}

// Claim is Take, but without forget it does not forget a key that has spent tokens.
// In that case, if there is no place for key, room is false and nothing was taken.
func (t *Table) Claim(key string, now time.Duration, forget bool) (left int64, wait time.Duration, ok, room bool) {
	return t.ClaimN(key, 1, now, forget, nil)
}

// ClaimN is Claim for n tokens at once. If they were taken and p is not nil, p stands for
// them.
func (t *Table) ClaimN(key string, n int64, now time.Duration, forget bool, p *Bill) (left int64, wait time.Duration, ok, room bool) {
	k := keyHash{maphash.String(t.seeds[0], key), maphash.String(t.seeds[1], key)}
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
func (s *shard) placeLocked(k keyHash, now time.Duration, forget bool) int32 {
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
		s.buckets = append(s.buckets, bucket{})
	}
	s.buckets[i] = bucket{key: k, seen: now}
	s.index[k] = i
	return i
}

// forgetLocked frees bucket i. s.mu must be held.
func (s *shard) forgetLocked(i int32) {
	s.lostLocked(i)
	s.unlinkLocked(i)
	s.removeLocked(i)
	delete(s.index, s.buckets[i].key)
	s.buckets[i] = bucket{next: s.free}
	s.free = i
}

// unlinkLocked takes i out of the ring. s.mu must be held.
func (s *shard) unlinkLocked(i int32) {
	b := &s.buckets[i]
	s.buckets[b.prev].next = b.next
	s.buckets[b.next].prev = b.prev
}

// linkLocked puts i into the ring as the most recently seen bucket. s.mu must be
// held.
func (s *shard) linkLocked(i int32) {
	first := s.buckets[0].next
	s.buckets[i].prev, s.buckets[i].next = 0, first
	s.buckets[first].prev = i
	s.buckets[0].next = i
}

// Len returns how many keys are remembered.
func (t *Table) Len() (n int) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n += len(s.index)
		s.mu.Unlock()
	}
	return n
}
