package quota

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
)

// A teller is the part of a Budget, or of a KeyedBudget, that calls the engine.
type teller struct {
	ledger fleet.Ledger
	terms  atomic.Pointer[BudgetOptions] // with defaults; Update replaces it
	keys   atomic.Int64                  // how many keys late may have
	keep   int                           // Correction.Keep
	epoch  time.Time
	health health

	ctx    context.Context // ends with the Budget; requests are made under it
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	closed bool              // guarded by mu, as all below
	late   map[fleet.Key]int // units that calls lacked, and the engine does not know of
	pays   bool              // a goroutine sends these
	left   float64           // of the key that was used last
	leftAt time.Duration
	count  BudgetStats
}

// open makes t ready to use, with options that have their defaults.
func (t *teller) open(l fleet.Ledger, o *BudgetOptions, keys, keep int) {
	t.ledger, t.keep, t.epoch, t.left = l, keep, time.Now(), float64(o.Rate.Burst)
	t.terms.Store(o)
	t.keys.Store(int64(keys))
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
}

// close ends all requests for units, and waits for the calls in flight.
func (t *teller) close(ctx context.Context) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel(ErrLimiterClosed)
	return wait.For(ctx, t.work.Wait)
}

func (t *teller) now() time.Duration { return time.Since(t.epoch) }

// begin reports whether a request may be made; if so, work.Done must follow.
func (t *teller) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.work.Add(1)
	return true
}

// refusal counts a refusal and returns its error.
func (t *teller) refusal(terms *BudgetOptions, r limit.Reason, after time.Duration) error {
	t.refused(r)
	return &limit.Error{Limiter: terms.Name, Reason: r, RetryAfter: max(1, after)}
}

func (t *teller) refused(r limit.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Refused[r]++
}

// tooMany refuses n units, which are more than the burst.
func (t *teller) tooMany(terms *BudgetOptions, n int) error {
	t.refused(limit.TooMany)
	return &limit.Error{Limiter: terms.Name, Reason: limit.TooMany, Units: n, Most: terms.Rate.Burst}
}

// outage returns the error of a call with FailClosed, and cause or what is known of it.
func (t *teller) outage(terms *BudgetOptions, cause error) error {
	wait, last := t.health.until(t.now())
	if last != nil {
		cause = last
	}
	if wait <= 0 {
		wait = terms.Retry
	}
	t.refused(limit.RateExceeded)
	return &OutageError{
		Refusal: limit.Error{Limiter: terms.Name, Reason: limit.RateExceeded, RetryAfter: wait}, Cause: cause,
	}
}

// errSuspended is the error of requests that are not made during an outage.
var errSuspended = &fleet.UnavailableError{Op: "spend", Err: errors.New("the engine has not responded")}

// A spending is one request. Its caller may leave before the response: then the units go
// back.
type spending struct {
	decided atomic.Bool // by the response, or by the caller that leaves
	done    chan struct{}
	spent   fleet.Spent // written before done is closed, as is err
	err     error
}

// try asks the engine for n units of k. Without enough of them it returns the time until
// there are, which is above 0. An error may be that of an outage.
func (t *teller) try(ctx context.Context, terms *BudgetOptions, k fleet.Key, n int) (p limit.Permit, after time.Duration, err error) {
	spent, err := t.spend(ctx, terms, k, n)
	switch {
	case err != nil:
		return limit.Permit{}, 0, err
	case !spent.OK:
		return limit.Permit{}, max(1, spent.RetryAfter), nil
	}
	return t.permit(k, n, spent.Mark), 0, nil
}

// isOutage reports whether err, of try, is due to the engine.
func isOutage(ctx context.Context, err error) bool {
	return err != nil && !errors.Is(err, ErrLimiterClosed) && ctx.Err() == nil
}

// spend makes a request for n units.
func (t *teller) spend(ctx context.Context, terms *BudgetOptions, k fleet.Key, n int) (fleet.Spent, error) {
	if t.health.down() && !t.health.try(t.now(), terms.Retry) {
		return fleet.Spent{}, errSuspended
	}
	if !t.begin() {
		return fleet.Spent{}, ErrLimiterClosed
	}
	s := &spending{done: make(chan struct{})}
	go func() {
		defer t.work.Done()
		s.spent, s.err = t.ask(terms, k, n)
		// Decided before done is closed, and by one of the two only: otherwise the caller
		// could take the units, and then this goroutine would give them back as well.
		left := !s.decided.CompareAndSwap(false, true)
		close(s.done)
		if left && s.err == nil && s.spent.OK {
			_ = t.correct(terms, k, fleet.Correction{Mark: s.spent.Mark, Units: n}, false) // it is counted
		}
	}()
	select {
	case <-s.done:
	case <-ctx.Done():
		if s.decided.CompareAndSwap(false, true) {
			return fleet.Spent{}, wait.Cause(ctx)
		}
		<-s.done
	}
	return s.spent, s.err
}

// ask calls the engine.
func (t *teller) ask(terms *BudgetOptions, k fleet.Key, n int) (s fleet.Spent, err error) {
	t.mu.Lock()
	late := t.late[k]
	delete(t.late, k)
	t.mu.Unlock()
	if late > 0 {
		if err := t.correct(terms, k, fleet.Correction{Cost: late}, true); err != nil {
			return fleet.Spent{}, err
		}
	}
	err = t.call(terms, func(ctx context.Context) error {
		s, err = t.ledger.Spend(ctx, k, terms.Rate, n)
		return err
	})
	if err == nil {
		t.mu.Lock()
		t.left, t.leftAt = s.Left, t.now()
		t.noteLocked(s.Replaced)
		t.payLocked(terms)
		t.mu.Unlock()
	}
	return s, err
}

// payLocked sends what calls lacked of all keys, now that the engine responds. t.mu must be
// held.
func (t *teller) payLocked(terms *BudgetOptions) {
	if len(t.late) == 0 || t.pays || t.closed {
		return
	}
	t.pays = true
	t.work.Add(1)
	go func() {
		defer t.work.Done()
		for k, late := range t.lates {
			if t.correct(terms, k, fleet.Correction{Cost: late}, true) != nil {
				return
			}
		}
	}()
}

// lates takes out of late what one key lacks, one after another.
func (t *teller) lates(yield func(fleet.Key, int) bool) {
	next := func() (k fleet.Key, late int, ok bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		for k, late = range t.late {
			delete(t.late, k)
			return k, late, !t.closed
		}
		return k, 0, false
	}
	for k, late, ok := next(); ok && yield(k, late); {
		k, late, ok = next()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pays = false
}

// call makes one call of the engine and records whether it responded.
func (t *teller) call(terms *BudgetOptions, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), terms.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // a panic of the user's Ledger must not end the process
			err = fmt.Errorf("quota: the ledger panicked: %v", p)
		}
		if err == nil {
			t.health.answered()
			return
		}
		t.health.failed(t.now(), terms.Retry, err)
		t.mu.Lock()
		t.count.Failed++
		t.mu.Unlock()
	}()
	return do(ctx)
}

// permit returns the permit for n units of k that were taken.
func (t *teller) permit(k fleet.Key, n int, at fleet.Mark) limit.Permit {
	return settled(n, func(cost int) {
		if cost == n || !t.begin() {
			return
		}
		go func() {
			defer t.work.Done()
			_ = t.correct(t.terms.Load(), k, fleet.Correction{Mark: at, Units: n, Cost: cost}, false) // it is counted
		}()
	})
}

// settled returns a permit for n units that calls end with the cost when it is released.
func settled(n int, end func(cost int)) limit.Permit {
	var cost atomic.Int64
	cost.Store(int64(n))
	return limit.NewUnitsPermit(func(units int) { cost.Store(int64(units)) }, func(o limit.Outcome) {
		if o == limit.Unused {
			cost.Store(0)
		}
		end(int(cost.Load()))
	})
}

// correct sends a correction, during an outage only with anyway. If the engine does not
// respond, what is owed is sent again before the next request for units of k.
func (t *teller) correct(terms *BudgetOptions, k fleet.Key, c fleet.Correction, anyway bool) error {
	var out fleet.Corrected
	var err error = errSuspended
	c.Keep = t.keep
	if anyway || !t.health.down() {
		err = t.call(terms, func(ctx context.Context) (err error) {
			out, err = t.ledger.Correct(ctx, k, terms.Rate, terms.MaxDebt, c)
			return err
		})
	}
	lacks := max(0, c.Cost-c.Units)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.count.Forgiven += uint64(lacks - t.postponeLocked(terms, k, lacks)) //nolint:gosec // never negative
		return err
	}
	t.count.Returned += uint64(max(0, out.Returned))
	t.count.Owed += uint64(max(0, out.Owed))
	t.count.Forgiven += uint64(max(0, lacks-out.Owed))
	t.left, t.leftAt = out.Left, t.now()
	t.noteLocked(out.Replaced)
	return nil
}

// noteLocked counts a value that was replaced. t.mu must be held.
func (t *teller) noteLocked(replaced bool) {
	if replaced {
		t.count.Replaced++
	}
}

// postponeLocked remembers that calls lacked units of k, and returns how many of these it
// remembers. t.mu must be held.
func (t *teller) postponeLocked(terms *BudgetOptions, k fleet.Key, lacks int) (kept int) {
	kept = min(lacks, max(0, terms.MaxDebt-t.late[k]))
	if _, known := t.late[k]; kept == 0 || !known && int64(len(t.late)) >= t.keys.Load() {
		return 0
	}
	if t.late == nil {
		t.late = make(map[fleet.Key]int)
	}
	t.late[k] += kept
	return kept
}
