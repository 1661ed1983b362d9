package fleet

import (
	"context"
	"fmt"
	"math"
	"time"
)

// A Ledger counts units of cost for the whole fleet: see [Abilities] and [Budget]. The
// units of each key are a token bucket, by the engine's clock, of which units can be given
// back.
//
// Units come back in the order in which they were spent, as work leaves a queue. So a
// correction gives back what is left of its units in that queue, and those spent after
// them move up: the bucket never has more than if the returned units had not been spent.
type Ledger interface {
	// Spend takes n units of k at once, or none.
	Spend(ctx context.Context, k Key, r Rate, n int) (Spent, error)
	// Correct gives back what c.Units had in excess of c.Cost, less what has come back
	// already; or takes what they lacked, until the bucket owes debt units. A debt below 0
	// counts as 0.
	Correct(ctx context.Context, k Key, r Rate, debt int, c Correction) (Corrected, error)
}

// A Spent is the result of Spend.
type Spent struct {
	OK         bool
	RetryAfter time.Duration // if not OK: the time until there are n units if no call takes any
	Left       float64       // units in the bucket; negative if some are owed
	Mark       Mark          // if OK
	Replaced   bool          // as of Taken
}

// A Mark is where units stand in the order in which the engine counted them. Only the
// engine that returned it can read it.
type Mark struct {
	Epoch    uint64  // of the bucket, from one time when it was full to another
	Seq      uint64  // of the Spend in that epoch
	Ahead    float64 // units that were out, up to its last one
	Leaked   float64 // units that had come back by then
	Returns  uint64  // corrections that had returned units
	Returned float64 // the units that they had returned
}

// A Correction is what a call has cost, next to what was spent for it. A correction is made
// once. With the zero Mark nothing is given back.
type Correction struct {
	Mark        Mark
	Units, Cost int
	// Keep is how many corrections the bucket remembers, at most 1024. 0 means 1024. If
	// more were made while a call ran, it gives back less, never more.
	Keep int
}

// A Corrected is the result of Correct: units that were given back, or taken.
type Corrected struct {
	Returned, Owed int
	Left           float64
	Replaced       bool // as of Taken
}

// maxReturns is how many corrections a bucket remembers, for those of calls that spent
// their units before. If more were made while a call ran, it counts the forgotten ones as
// if they had been of earlier calls: it gives back less, never more.
const maxReturns = 1024

// Remember returns how many corrections a [Ledger] remembers after c: Keep, within its
// bounds.
func (c Correction) Remember() int {
	if c.Keep <= 0 {
		return maxReturns
	}
	return min(c.Keep, maxReturns)
}

// nearly allows for the rounding of units, which are float64.
const nearly = 1e-6

// checkSpend returns an error if an argument of Spend is out of bounds.
func checkSpend(r Rate, n int) error {
	if err := r.check(); err != nil {
		return err
	}
	if n < 1 {
		return fmt.Errorf("fleet: %d units; at least 1", n)
	}
	return nil
}

// perNano returns how many units come back in a nanosecond.
func (r Rate) perNano() float64 { return float64(r.Permits) / float64(r.Per) }

// A pot is the bucket of one key of a Memory.
type pot struct {
	level    float64 // units that are out
	leaked   float64 // units that came back since the epoch began, whether there were any or not
	at       time.Duration
	perNano  float64 // units that come back
	epoch    uint64
	seq      uint64
	returned float64
	returns  uint64     // corrections that returned units
	latest   []giveBack // of these, the latest
}

type giveBack struct {
	seq   uint64
	units float64
	total float64 // returned, with these
}

// pass brings p up to now, with that many units per nanosecond.
func (p *pot) pass(now time.Duration, perNano float64) {
	p.perNano = perNano
	if gone := float64(max(0, now-p.at)) * p.perNano; gone > 0 {
		p.level, p.leaked = max(0, p.level-gone), p.leaked+gone
	}
	p.at = now
}

// spend is Ledger.Spend.
func (p *pot) spend(r Rate, n int) Spent {
	left := float64(r.Burst) - p.level
	if missing := float64(n) - left; missing > nearly {
		return Spent{RetryAfter: time.Duration(min(math.Ceil(missing/p.perNano), math.MaxInt64/4)), Left: left}
	}
	p.level += float64(n)
	p.seq++
	return Spent{OK: true, Left: left - float64(n), Mark: Mark{
		Epoch: p.epoch, Seq: p.seq, Ahead: p.level, Leaked: p.leaked, Returns: p.returns, Returned: p.returned,
	}}
}

// correct is Ledger.Correct.
func (p *pot) correct(r Rate, debt int, c Correction) (out Corrected) {
	if c.Cost > c.Units {
		out.Owed = max(0, min(c.Cost-c.Units, int(math.Floor(float64(r.Burst+debt)-p.level+nearly))))
		p.level += float64(out.Owed)
	} else if c.Mark.Epoch == p.epoch {
		left := c.Mark.Ahead - (p.leaked - c.Mark.Leaked) - p.before(c.Mark)
		// left is at most p.level: it is what is out up to this call, of all that is out.
		back := math.Floor(min(float64(c.Units-c.Cost), left+nearly))
		if back > 0 {
			out.Returned = int(back)
			p.level = max(0, p.level-back)
			p.returned += back
			p.returns++
			p.latest = append(p.latest, giveBack{c.Mark.Seq, back, p.returned})
			if over := len(p.latest) - c.Remember(); over > 0 {
				p.latest = append(p.latest[:0], p.latest[over:]...)
			}
		}
	}
	out.Left = float64(r.Burst) - p.level
	return out
}

// before returns how many units, of those in front of m's, were given back after m.
func (p *pot) before(m Mark) (units float64) {
	i := 0
	if forgotten := p.returns - uint64(len(p.latest)); m.Returns >= forgotten {
		i = int(min(m.Returns-forgotten, uint64(len(p.latest)))) //nolint:gosec // at most maxReturns
	} else {
		units = p.latest[0].total - p.latest[0].units - m.Returned
	}
	for _, g := range p.latest[i:] {
		if g.seq < m.Seq {
			units += g.units
		}
	}
	return units
}

var _ Ledger = (*Memory)(nil)

// Spend implements [Ledger].
func (m *Memory) Spend(ctx context.Context, key Key, r Rate, n int) (s Spent, err error) {
	if err := checkSpend(r, n); err != nil {
		return Spent{}, err
	}
	err = m.withPot(ctx, "spend", key, r, func(p *pot) { s = p.spend(r, n) })
	return s, err
}

// Correct implements [Ledger].
func (m *Memory) Correct(ctx context.Context, key Key, r Rate, debt int, c Correction) (out Corrected, err error) {
	if err := r.check(); err != nil {
		return Corrected{}, err
	}
	err = m.withPot(ctx, "correct", key, r, func(p *pot) { out = p.correct(r, max(0, debt), c) })
	return out, err
}

// withPot calls do with the bucket of key, under the lock.
func (m *Memory) withPot(ctx context.Context, op string, key Key, r Rate, do func(*pot)) error {
	if err := checkKey(key); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, err := m.beginLocked(ctx, op)
	if err != nil {
		return err
	}
	p := m.pots[key]
	if p == nil {
		if len(m.pots) >= m.maxKeys && !m.sweepPotsLocked(now) {
			return &UnavailableError{Op: op, Err: errTooManyLimits}
		}
		if m.pots == nil {
			m.pots = make(map[Key]*pot)
		}
		m.epochs++
		p = &pot{at: now, epoch: m.epochs}
		m.pots[key] = p
	}
	p.pass(now, r.perNano())
	do(p)
	return nil
}

// sweepPotsLocked drops the buckets that are full, and reports whether there is room for
// another one. m.mu must be held.
func (m *Memory) sweepPotsLocked(now time.Duration) bool {
	for key, p := range m.pots {
		if p.level <= float64(max(0, now-p.at))*p.perNano {
			delete(m.pots, key)
		}
	}
	return len(m.pots) < m.maxKeys
}
