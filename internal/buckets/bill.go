package buckets

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// A Bill is what a key has paid for one call: tokens of its bucket. It is guarded by the
// mutex of its shard. The zero Bill stands for nothing until Table.ClaimN has filled it in,
// but its Sums must be set.
//
// Tokens that a call did not need go back, but not those that have come back already. As
// in limit.RateLimiter, what comes back belongs to the tokens that were taken first, as
// work leaves a queue: the bucket never has more than if the returned tokens had not been
// taken.
type Bill struct {
	Sums *Sums // set before it is used

	shard    *shard        // nil if the tokens were not taken
	bucket   int32         // in shard
	lost     bool          // the bucket was forgotten
	over     bool          // the call has ended
	n        int           // tokens that it stands for
	held     int64         // of them those that could go back, as a debt
	ahead    int64         // the debt of the bucket at the time at, up to its last token
	at       time.Duration // as in bucket.seen
	forgiven int           // tokens that it lacked and did not take
}

// openLocked makes p the bill of n tokens that were just taken from bucket i. The bucket
// is not forgotten for others while it has open bills: what is owed later would be lost.
// s.mu must be held.
func (s *shard) openLocked(i int32, p *Bill, n int64) {
	b := &s.buckets[i]
	p.shard, p.bucket = s, i
	p.n, p.held, p.ahead, p.at = int(n), n*s.meter.token, b.debt, b.seen
	if s.open == nil {
		s.open = make(map[int32][]*Bill)
	}
	s.open[i] = append(s.open[i], p)
	b.due = math.MaxInt64
	s.sinkLocked(int(b.pos))
}

// lostLocked is called before bucket i is forgotten: its bills stand for nothing any more.
// s.mu must be held.
func (s *shard) lostLocked(i int32) {
	for _, p := range s.open[i] {
		p.lost = true
	}
	delete(s.open, i)
}

// changedLocked is called when the meter changes: what the open bills of bucket i took
// cannot go back. s.mu must be held.
func (s *shard) changedLocked(i int32) {
	open := s.open[i]
	if len(open) > 0 {
		s.buckets[i].due = math.MaxInt64
	}
	for _, p := range open {
		p.held = 0
	}
}

// Sums are the totals of the bills that share them, in tokens.
type Sums struct {
	Returned, Owed, Forgiven atomic.Uint64
}

// Settle sets what the call has cost.
func (p *Bill) Settle(units int, now time.Duration) {
	s := p.shard
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.settleLocked(units, now)
}

// End settles p for good. It may be called again, and does nothing then.
func (p *Bill) End(units int, now time.Duration) {
	s := p.shard
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.settleLocked(units, now)
	if p.over || p.lost {
		p.over = true
		return
	}
	p.over = true
	open := slices.DeleteFunc(s.open[p.bucket], func(o *Bill) bool { return o == p })
	if len(open) > 0 {
		s.open[p.bucket] = open
		return
	}
	delete(s.open, p.bucket)
	b := &s.buckets[p.bucket]
	b.due = s.meter.fullAt(b.debt, b.seen)
	s.riseLocked(int(b.pos))
}

// settleLocked is Settle. p.shard.mu must be held.
func (p *Bill) settleLocked(units int, now time.Duration) {
	if p.over || p.lost {
		return
	}
	b, m := &p.shard.buckets[p.bucket], p.shard.meter
	p.shard.unlinkLocked(p.bucket) // it is the bucket seen last
	p.shard.linkLocked(p.bucket)
	b.debt = m.debtAt(b.debt, now-b.seen)
	b.seen = max(b.seen, now)
	switch {
	case units < p.n:
		p.refundLocked(b, int64(p.n-units)*m.token)
	case units > p.n:
		took := min(int64(units-p.n), max(0, m.most-b.debt)/m.token)
		b.debt += took * m.token
		p.n += int(took)
		p.Sums.Owed.Add(uint64(took)) //nolint:gosec // never negative
	}
	lacks := max(0, units-p.n)
	p.Sums.Forgiven.Add(uint64(lacks - p.forgiven)) //nolint:gosec // also down, if some of them were taken now
	p.forgiven = lacks
}

// refundLocked returns up to a debt of most to b. Bills that took their tokens later move
// up. p.shard.mu must be held.
func (p *Bill) refundLocked(b *bucket, most int64) {
	m := p.shard.meter
	left := m.debtAt(p.ahead, b.seen-p.at)
	back := min(most, p.held, left)
	if back -= back % m.token; back <= 0 {
		return
	}
	b.debt -= back
	p.n -= int(back / m.token)
	p.held -= back
	p.Sums.Returned.Add(uint64(back / m.token)) //nolint:gosec // never negative
	open := p.shard.open[p.bucket]
	for _, o := range open[slices.Index(open, p):] {
		o.ahead, o.at = m.debtAt(o.ahead, b.seen-o.at)-back, b.seen
	}
}
