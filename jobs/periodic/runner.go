package periodic

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/ledger"
)

// A runner is a schedule and its goroutine, which alone uses the fields without a rule.
type runner struct {
	schedule Schedule
	spec     *spec
	ledger   ledger.Ledger
	o        *Options
	slots    chan struct{} // Options.Concurrency of them; sent to by who uses the Store

	next    time.Time    // the tick that it waits for; zero: none
	known   time.Time    // up to when it has decided about its definition's ticks
	settled ledger.Claim // the last claim that was seen to be committed
	fails   int          // in succession

	mu     sync.Mutex
	status Status // guarded by mu
}

const (
	retryInitial = 500 * time.Millisecond // after a failure; doubles
	retryMax     = 30 * time.Second

	// longestSleep bounds how long the goroutine sleeps without reading the clock. On a
	// suspended machine its time stands still.
	longestSleep = 10 * time.Second

	// spread is how much later than its tick a look can be, at random. Instances that
	// come later see that the tick is decided.
	spread = 50 * time.Millisecond

	// maxAhead is how far in the future a last tick can be before that is trouble.
	maxAhead = time.Minute

	maxRaces = 100 // of one look
)

// run looks at the schedule at each of its ticks, until stop ends.
func (r *runner) run(stop, ctx context.Context) {
	for wait := time.Duration(0); ; {
		if !r.sleep(stop, wait) {
			return
		}
		select {
		case r.slots <- struct{}{}:
		case <-stop.Done():
			return
		}
		err := r.look(stop, ctx)
		<-r.slots
		switch {
		case err == nil && stop.Err() != nil, ctx.Err() != nil:
			return
		case err != nil:
			wait = r.retryIn(err)
			r.event(ctx, Event{Kind: EventTrouble, Err: err, RetryIn: wait})
			continue
		case r.next.IsZero(): // it has no tick any more
			<-stop.Done()
			return
		}
		r.fails, wait = 0, 0
		if !r.sleepUntil(stop, r.next.Add(rand.N(spread))) {
			return
		}
	}
}

// sleepUntil sleeps until the server's clock shows t.
func (r *runner) sleepUntil(stop context.Context, t time.Time) bool {
	for {
		d := t.Sub(r.ledger.Now())
		if d <= 0 {
			return stop.Err() == nil
		}
		if !r.sleep(stop, min(d, longestSleep)) {
			return false
		}
	}
}

// sleep returns false if stop has ended.
func (r *runner) sleep(stop context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-stop.Done():
		return false
	case <-t.C:
		return stop.Err() == nil
	}
}

// retryIn returns the wait after a failure.
func (r *runner) retryIn(err error) time.Duration {
	var full *jobs.FullError
	if errors.As(err, &full) {
		return min(full.RetryAfter, retryMax)
	}
	d := min(retryInitial<<min(r.fails, 10), retryMax)
	r.fails++
	return d - rand.N(d/5)
}
