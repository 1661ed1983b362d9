package weirhttp

import (
	"math"
	"slices"
	"time"

	"github.com/weir-go/weir/limit"
)

// A bill is what a client has paid for one call, or is about to: tokens of its bucket. It
// is guarded by the mutex of its shard, and nil for a call that costs its client nothing.
//
// Tokens that a call did not need go back, but not those that have come back already. As
// in limit.RateLimiter, what comes back belongs to the tokens that were taken first, as
// work leaves a queue: the bucket never has more than if the returned tokens had not been
// taken.
type bill struct {
	budget *ClientBudget // set before it is used, as are shard and permit
	shard  *clientShard  // nil in a fleet if this instance alone would have refused the call
	permit limit.Permit  // of the fleet, else the zero Permit

	bucket   int32         // in shard
	lost     bool          // the bucket was forgotten
	over     bool          // the call has ended
	n        int           // tokens that it stands for
	held     int64         // of them those that could go back, as a debt
	ahead    int64         // the debt of the bucket at the time at, up to its last token
	at       time.Duration // as in clientBucket.seen
	forgiven int           // tokens that it lacked and did not take
}

// openLocked makes p the bill of n tokens that were just taken from bucket i. The bucket
// is not forgotten for others while it has open bills: what is owed later would be lost.
// s.mu must be held.
func (s *clientShard) openLocked(i int32, p *bill, n int64) {
	b := &s.buckets[i]
	p.shard, p.bucket = s, i
	p.n, p.held, p.ahead, p.at = int(n), n*s.meter.token, b.debt, b.seen
	if s.open == nil {
		s.open = make(map[int32][]*bill)
	}
	s.open[i] = append(s.open[i], p)
	b.due = math.MaxInt64
	s.sinkLocked(int(b.pos))
}

// lostLocked is called before bucket i is forgotten: its bills stand for nothing any more.
// s.mu must be held.
func (s *clientShard) lostLocked(i int32) {
	for _, p := range s.open[i] {
		p.lost = true
	}
	delete(s.open, i)
}

// changedLocked is called when the meter changes: what the open bills of bucket i took
// cannot go back. s.mu must be held.
func (s *clientShard) changedLocked(i int32) {
	open := s.open[i]
	if len(open) > 0 {
		s.buckets[i].due = math.MaxInt64
	}
	for _, p := range open {
		p.held = 0
	}
}

// settle sets what the call has cost.
func (p *bill) settle(units int) {
	if p == nil {
		return
	}
	p.permit.Settle(units)
	s := p.shard
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.settleLocked(units, p.budget.now())
}

// end settles p for good. It may be called again, and does nothing then.
func (p *bill) end(units int) {
	if p == nil {
		return
	}
	p.permit.Settle(units)
	p.permit.Release(limit.Success)
	s := p.shard
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := p.budget.now()
	p.settleLocked(units, now)
	if p.over || p.lost {
		p.over = true
		return
	}
	p.over = true
	open := slices.DeleteFunc(s.open[p.bucket], func(o *bill) bool { return o == p })
	if len(open) > 0 {
		s.open[p.bucket] = open
		return
	}
	delete(s.open, p.bucket)
	b := &s.buckets[p.bucket]
	b.due = s.meter.fullAt(b.debt, b.seen)
	s.riseLocked(int(b.pos))
}

// undo returns everything, for a call that was not made.
func (p *bill) undo() { p.end(0) }

// settleLocked is settle. p.shard.mu must be held.
func (p *bill) settleLocked(units int, now time.Duration) {
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
		p.budget.owed.Add(uint64(took)) //nolint:gosec // never negative
	}
	lacks := max(0, units-p.n)
	p.budget.forgiven.Add(uint64(lacks - p.forgiven)) //nolint:gosec // also down, if some of them were taken now
	p.forgiven = lacks
}

// refundLocked returns up to a debt of most to b. Bills that took their tokens later move
// up. p.shard.mu must be held.
func (p *bill) refundLocked(b *clientBucket, most int64) {
	m := p.shard.meter
	left := m.debtAt(p.ahead, b.seen-p.at)
	back := min(most, p.held, left)
	if back -= back % m.token; back <= 0 {
		return
	}
	b.debt -= back
	p.n -= int(back / m.token)
	p.held -= back
	p.budget.returned.Add(uint64(back / m.token)) //nolint:gosec // never negative
	open := p.shard.open[p.bucket]
	for _, o := range open[slices.Index(open, p):] {
		o.ahead, o.at = m.debtAt(o.ahead, b.seen-o.at)-back, b.seen
	}
}
