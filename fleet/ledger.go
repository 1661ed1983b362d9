package fleet

import (
	"context"
	"fmt"
	"time"
)

// A Ledger counts units of cost for the whole fleet: see [Abilities]. The
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

// A Spent is the result of Spend: whether the units were taken, and what is left.
type Spent struct {
	OK         bool          // the units were taken
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
	Units, Cost int // units that were spent, and units that the call has cost
	// Keep is how many corrections the bucket remembers, at most 1024. 0 means 1024. If
	// more were made while a call ran, it gives back less, never more.
	Keep int
}

// A Corrected is the result of Correct: units that were given back, or taken.
type Corrected struct {
	Returned, Owed int     // units given back, and units still owed
	Left           float64 // units in the bucket afterwards; negative if some are owed
	Replaced       bool    // as of Taken
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
