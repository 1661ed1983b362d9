package limit_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// B4: issued permits stay valid when the limit shrinks, and a larger limit takes
// effect for the queue at once.
func TestConcurrencyUpdateRevokesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 2, Reserve: -1})
		a, b := admitted(t, c, t.Context()), admitted(t, c, t.Context())
		first, second := start(c, t.Context()), start(c, t.Context())

		if err := c.Update(limit.ConcurrencyOptions{Limit: 1}); err != nil {
			t.Fatal(err)
		}
		a.Release(limit.Success)
		first.waits(t) // b alone fills the limit
		b.Release(limit.Success)
		p := first.got(t, 0)
		second.waits(t)

		if err := c.Update(limit.ConcurrencyOptions{Limit: 2, Queue: -1}); err != nil {
			t.Fatal(err)
		}
		second.got(t, 0)
		_, err := c.Acquire(t.Context())
		refused(t, err, limit.QueueFull)
		p.Release(limit.Success)
	})
}

func TestUpdateRefusesWhatItCannotChange(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Name: "db", Limit: 2})
	r := newRate(t, limit.RateOptions{Name: "db", PerSecond: 1})
	a := newAdaptive(t, limit.AdaptiveOptions{Name: "db"})
	for name, err := range map[string]error{
		"Concurrency, name":  c.Update(limit.ConcurrencyOptions{Name: "other", Limit: 3}),
		"Concurrency, limit": c.Update(limit.ConcurrencyOptions{Name: "db"}),
		"RateLimiter, name":  r.Update(limit.RateOptions{PerSecond: 2}),
		"RateLimiter, rate":  r.Update(limit.RateOptions{Name: "db"}),
		"Adaptive, name":     a.Update(limit.AdaptiveOptions{}),
		"Adaptive, bounds":   a.Update(limit.AdaptiveOptions{Name: "db", Min: 9, Max: 8}),
		"Adaptive, dry run":  a.Update(limit.AdaptiveOptions{Name: "db", DryRun: true}),
	} {
		if !errors.As(err, new(*limit.OptionError)) {
			t.Errorf("%s: Update = %v; want an *OptionError", name, err)
		}
	}
	if got := c.Stats().Limit; got != 2 {
		t.Errorf("Limit = %d after rejected updates; want 2", got)
	}
}

func TestAdaptiveUpdateKeepsTheLimitWithinBounds(t *testing.T) {
	a := newAdaptive(t, limit.AdaptiveOptions{Initial: 50})
	for _, row := range []struct{ least, most, want int }{{1, 20, 20}, {30, 100, 30}, {10, 100, 30}} {
		if err := a.Update(limit.AdaptiveOptions{Min: row.least, Max: row.most}); err != nil {
			t.Fatal(err)
		}
		if a.Check(t); a.Limit() != row.want {
			t.Errorf("Limit = %d with Min %d and Max %d; want %d", a.Limit(), row.least, row.most, row.want)
		}
	}
}

func TestRateLimiterUpdateToAndFromUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 1})
		admitted(t, l, t.Context())
		waiter := start(l, t.Context())
		time.Sleep(time.Second / 4)
		if err := l.Update(limit.RateOptions{PerSecond: math.Inf(1)}); err != nil {
			t.Fatal(err)
		}
		waiter.got(t, time.Second/4)
		for range 100 {
			admitted(t, l, t.Context())
		}
		if err := l.Update(limit.RateOptions{PerSecond: 1, Burst: 2}); err != nil {
			t.Fatal(err)
		}
		admitted(t, l, t.Context())
		admitted(t, l, t.Context())
		start(l, t.Context()).waits(t)
		time.Sleep(time.Second)
	})
}

// B4: a call of many units keeps its turn, and no call of one passes it.
func TestAcquireNKeepsItsTurn(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 3}, func(t *testing.T, l queued) {
		a, b := admitted(t, l, t.Context()), admitted(t, l, t.Context())
		many, one := start(units{l, 3}, t.Context()), start(l, t.Context())
		a.Release(limit.Success)
		many.waits(t)
		one.waits(t)
		b.Release(limit.Success)
		many.got(t, 0).Release(limit.Success)
		one.got(t, 0)

		_, err := l.AcquireN(t.Context(), 4)
		refused(t, err, limit.TooMany)
	})
}

// B4: when a caller leaves the queue, the one behind it can fit at once.
func TestAcquireNLeavesRoomWhenItLeaves(t *testing.T) {
	eachQueued(t, limit.ConcurrencyOptions{Limit: 3}, func(t *testing.T, l queued) {
		admitted(t, l, t.Context())
		many, one := start(units{l, 3}, t.Context()), start(l, t.Context())
		high := start(l, of(t, limit.High))
		high.got(t, 0) // its turn comes before the others
		one.waits(t)
		many.cancel(errGone)
		many.lost(t, errGone, 0)
		one.got(t, 0)
	})
}

func TestAcquireNOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 3})
		p := admitted(t, units{l, 2}, t.Context())
		many := start(units{l, 3}, t.Context())
		one := start(l, t.Context())
		many.cancel(errGone) // the available token goes to the next caller
		one.got(t, 0)
		p.Release(limit.Unused)
		p.Release(limit.Unused)
		admitted(t, units{l, 2}, t.Context())
		_, err := l.AcquireN(t.Context(), 4)
		refused(t, err, limit.TooMany)

		wide := start(units{l, 3}, t.Context())
		if err := l.Update(limit.RateOptions{PerSecond: 1, Burst: 2}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		refused(t, wide.err, limit.TooMany)
		defer func() {
			if recover() == nil {
				t.Error("AcquireN(0) did not panic")
			}
		}()
		l.AcquireN(t.Context(), 0)
	})
}

func TestDoReleasesWithTheOutcomeOfTheCall(t *testing.T) {
	type key struct{}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, row := range map[string]struct {
		ctx  context.Context
		err  error
		want limit.Outcome
	}{
		"success":    {t.Context(), nil, limit.Success},
		"an answer":  {t.Context(), errGone, limit.Success},
		"a time-out": {t.Context(), context.DeadlineExceeded, limit.Dropped},
		"overload":   {t.Context(), &limit.Error{Reason: limit.QueueFull}, limit.Dropped},
		"the caller": {canceled, context.Canceled, limit.Ignored},
	} {
		var got []limit.Outcome
		l := acquireFunc(func(context.Context) (limit.Permit, error) {
			return limit.NewPermit(func(o limit.Outcome) { got = append(got, o) }), nil
		})
		ctx := context.WithValue(row.ctx, key{}, name)
		v, err := limit.Do(ctx, l, func(ctx context.Context) (string, error) { return ctx.Value(key{}).(string), row.err })
		if v != name || err != row.err || len(got) != 1 || got[0] != row.want {
			t.Errorf("%s: Do = %q, %v; released with %v; want %v once", name, v, err, got, row.want)
		}
		got = nil
		func() {
			defer func() { recover() }()
			limit.Do(ctx, l, func(context.Context) (int, error) { panic("of the caller") })
		}()
		if len(got) != 1 || got[0] != limit.Ignored {
			t.Errorf("%s: after a panic, released with %v; want ignored once", name, got)
		}
	}
	refuse := acquireFunc(func(context.Context) (limit.Permit, error) { return limit.Permit{}, errGone })
	if v, err := limit.Do(t.Context(), refuse, func(context.Context) (int, error) { return 1, nil }); v != 0 || err != errGone {
		t.Errorf("Do = %d, %v; want 0 and the rejection", v, err)
	}
}

type acquireFunc func(context.Context) (limit.Permit, error)

func (f acquireFunc) Acquire(ctx context.Context) (limit.Permit, error) { return f(ctx) }

func TestMust(t *testing.T) {
	if c := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})); c == nil {
		t.Error("Must = nil")
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.As(err, new(*limit.OptionError)) {
			t.Errorf("Must panicked with %v; want the *OptionError", err)
		}
	}()
	limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{}))
}
