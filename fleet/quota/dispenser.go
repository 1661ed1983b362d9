package quota

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/spread"
	"github.com/weir-go/weir/limit"
)

// A dispenser holds what the lines of one limiter share: the terms, the engine and
// its health, the counters, and the lifetime.
type dispenser struct {
	meter  fleet.Meter
	terms  atomic.Pointer[lineTerms] // Update replaces it
	random func() float64
	shared bool // the limit is not that of one client
	epoch  time.Time

	health health
	count  tally

	ctx    context.Context // ends with the limiter; requests are made under it
	cancel context.CancelCauseFunc
	closed atomic.Bool // set under mu; read without it where no request begins
	mu     sync.Mutex  // orders begin and shut, so that work never grows once Close waits for it
	work   sync.WaitGroup
}

// lineTerms are Terms and the values derived from them. They are immutable: a line
// notices a change by the pointer.
type lineTerms struct {
	Terms
	asked   fleet.Rate    // the rate sent to the engine: with a smaller burst, see Limiter
	horizon time.Duration // how long a batch should last: half a lease
	each    time.Duration // between two permits of an instance's local share
	share   int           // its burst
	places  int           // the maximum number of waiting callers on each line
	maxWait time.Duration
}

func newLineTerms(t Terms, places int, maxWait time.Duration) *lineTerms {
	n := max(1, t.Instances)
	l := &lineTerms{
		Terms: t, asked: t.Rate, horizon: t.Lease / 2,
		each: timeOf(t.Rate, n), share: max(1, t.Rate.Burst/n), places: places, maxWait: maxWait,
	}
	l.asked.Burst -= comesBack(t.Rate, t.Lease)
	return l
}

func newDispenser(m fleet.Meter, t *lineTerms) *dispenser {
	d := &dispenser{meter: m, random: rand.Float64, epoch: time.Now()}
	d.terms.Store(t)
	d.ctx, d.cancel = context.WithCancelCause(context.Background())
	return d
}

// now is the time since d was made, by the monotonic clock.
func (d *dispenser) now() time.Duration { return time.Since(d.epoch) }

// begin reports whether a request may be made; if so, work.Done must follow.
func (d *dispenser) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed.Load() {
		return false
	}
	d.work.Add(1)
	return true
}

// shut prevents further requests and cancels those in progress.
func (d *dispenser) shut() {
	d.mu.Lock()
	d.closed.Store(true)
	d.mu.Unlock()
	d.cancel(ErrLimiterClosed)
}

// ask requests n permits from the engine. Its result is within bounds, whatever the
// Meter returns.
func (d *dispenser) ask(terms *lineTerms, k fleet.Key, n int) (t fleet.Taken, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, terms.Lease)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // a panic of the user's Meter must not end the process
			t, err = fleet.Taken{}, fmt.Errorf("quota: the meter panicked: %v", p)
		}
	}()
	d.count.takes.Add(1)
	t, err = d.meter.Take(ctx, k, terms.asked, n)
	if err != nil {
		return fleet.Taken{}, err
	}
	t.Permits = max(0, min(t.Permits, n))
	t.RetryAfter = max(0, min(t.RetryAfter, maxRatePer))
	d.count.leased.Add(uint64(t.Permits))
	if t.Replaced {
		d.count.replaced.Add(1)
	}
	return t, nil
}

// errLate is the cause of an outage in which the engine responds, but too late.
var errLate = &fleet.UnavailableError{Op: "take", Err: errors.New("the response came after the lease")}

// refusal counts a refusal and returns its error. The wait is spread if many callers share
// the limit. The limit of one key stays exact.
func (d *dispenser) refusal(r limit.Reason, wait time.Duration) error {
	d.count.refused[r].Add(1)
	if d.shared {
		wait = spread.Known(wait)
	}
	return &limit.Error{Limiter: d.terms.Load().Name, Reason: r, RetryAfter: max(1, wait)}
}

// outageRefusal is refusal during an outage with FailClosed.
func (d *dispenser) outageRefusal(now time.Duration) error {
	d.count.refused[limit.RateExceeded].Add(1)
	d.count.outageRefused.Add(1)
	wait, cause := d.health.until(now)
	if wait <= 0 { // the next caller may call the engine
		wait = d.terms.Load().Lease
	}
	return &OutageError{
		Refusal: limit.Error{Limiter: d.terms.Load().Name, Reason: limit.RateExceeded, RetryAfter: max(1, wait)},
		Cause:   cause,
	}
}

// timeOf returns how long n permits take to come back, rounded up.
func timeOf(r fleet.Rate, n int) time.Duration {
	hi, lo := bits.Mul64(uint64(r.Per), uint64(n))
	lo, carry := bits.Add64(lo, uint64(r.Permits-1), 0)
	hi += carry
	if hi >= uint64(r.Permits) {
		return math.MaxInt64 / 4
	}
	q, _ := bits.Div64(hi, lo, uint64(r.Permits))
	return time.Duration(min(q, math.MaxInt64/4))
}
