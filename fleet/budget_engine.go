package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weir-go/weir/limit"
)

// begin reports whether a request may be made; if so, work.Done must follow.
func (b *Budget) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.work.Add(1)
	return true
}

// errSuspended is the error of requests that are not made during an outage.
var errSuspended = &UnavailableError{Op: "spend", Err: errors.New("the engine has not responded")}

// A spending is one request. Its caller may leave before the response: then the units go
// back.
type spending struct {
	decided atomic.Bool // by the response, or by the caller that leaves
	done    chan struct{}
	spent   Spent // written before done is closed, as is err
	err     error
}

// spend makes a request for n units.
func (b *Budget) spend(ctx context.Context, terms *BudgetOptions, n int) (Spent, error) {
	if b.health.down() && !b.health.try(b.now(), terms.Retry) {
		return Spent{}, errSuspended
	}
	if !b.begin() {
		return Spent{}, ErrLimiterClosed
	}
	s := &spending{done: make(chan struct{})}
	go func() {
		defer b.work.Done()
		s.spent, s.err = b.ask(terms, n)
		close(s.done)
		if !s.decided.CompareAndSwap(false, true) && s.err == nil && s.spent.OK {
			_ = b.correct(terms, Correction{Mark: s.spent.Mark, Units: n}, false) // it is counted
		}
	}()
	select {
	case <-s.done:
	case <-ctx.Done():
		if s.decided.CompareAndSwap(false, true) {
			return Spent{}, context.Cause(ctx)
		}
		<-s.done
	}
	s.decided.Store(true)
	return s.spent, s.err
}

// ask calls the engine.
func (b *Budget) ask(terms *BudgetOptions, n int) (s Spent, err error) {
	b.mu.Lock()
	late := b.late
	b.late = 0
	b.mu.Unlock()
	if late > 0 {
		if err := b.correct(terms, Correction{Cost: late}, true); err != nil {
			return Spent{}, err
		}
	}
	err = b.call(terms, func(ctx context.Context) error {
		s, err = b.ledger.Spend(ctx, terms.Key, terms.Rate, n)
		return err
	})
	if err == nil {
		b.mu.Lock()
		b.left, b.leftAt = s.Left, b.now()
		b.mu.Unlock()
	}
	return s, err
}

// call makes one call of the engine and records whether it responded.
func (b *Budget) call(terms *BudgetOptions, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), terms.Timeout)
	defer cancel()
	defer func() {
		if p := recover(); p != nil { // a panic of the user's Ledger must not end the process
			err = fmt.Errorf("fleet: the ledger panicked: %v", p)
		}
		if err == nil {
			b.health.answered()
			return
		}
		b.health.failed(b.now(), terms.Retry, err)
		b.mu.Lock()
		b.count.Failed++
		b.mu.Unlock()
	}()
	return do(ctx)
}

// permit returns the permit for n units that were taken.
func (b *Budget) permit(n int, at Mark) limit.Permit {
	var cost atomic.Int64
	cost.Store(int64(n))
	return limit.NewUnitsPermit(func(units int) { cost.Store(int64(units)) }, func(o limit.Outcome) {
		c := Correction{Mark: at, Units: n, Cost: int(cost.Load())}
		if o == limit.Unused {
			c.Cost = 0
		}
		if c.Cost == c.Units || !b.begin() {
			return
		}
		go func() {
			defer b.work.Done()
			_ = b.correct(b.terms.Load(), c, false) // it is counted
		}()
	})
}

// correct sends a correction, during an outage only with anyway. If the engine does not
// respond, what is owed is sent again before the next request for units.
func (b *Budget) correct(terms *BudgetOptions, c Correction, anyway bool) error {
	var out Corrected
	var err error = errSuspended
	if anyway || !b.health.down() {
		err = b.call(terms, func(ctx context.Context) (err error) {
			out, err = b.ledger.Correct(ctx, terms.Key, terms.Rate, terms.MaxDebt, c)
			return err
		})
	}
	lacks := max(0, c.Cost-c.Units)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		kept := min(lacks, max(0, terms.MaxDebt-b.late))
		b.late += kept
		b.count.Forgiven += uint64(lacks - kept) //nolint:gosec // never negative
		return err
	}
	b.count.Returned += uint64(max(0, out.Returned))
	b.count.Owed += uint64(max(0, out.Owed))
	b.count.Forgiven += uint64(max(0, lacks-out.Owed))
	b.left, b.leftAt = out.Left, b.now()
	return nil
}
