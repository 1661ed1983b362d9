package limit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// A limiterFunc is a Limiter from outside the package.
type limiterFunc func(context.Context) (limit.Permit, error)

func (f limiterFunc) Acquire(ctx context.Context) (limit.Permit, error) { return f(ctx) }

// recording returns a Limiter that admits every caller and logs acquires and
// releases.
func recording(name string, log *[]string) limit.Limiter {
	return limiterFunc(func(context.Context) (limit.Permit, error) {
		*log = append(*log, name)
		return limit.NewPermit(func(o limit.Outcome) {
			*log = append(*log, fmt.Sprintf("%s %v", name, o))
		}), nil
	})
}

func TestAllAcquiresInOrderAndReleasesInReverse(t *testing.T) {
	var log []string
	l := limit.All(recording("a", &log), recording("b", &log))
	p, err := l.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.Release(limit.Dropped)
	p.Release(limit.Success)
	if got, want := fmt.Sprint(log), "[a b b dropped a dropped]"; got != want {
		t.Errorf("log = %v; want %v", got, want)
	}
}

func TestAllRefusalUndoesTheEarlierOnes(t *testing.T) {
	var log []string
	no := errors.New("no")
	l := limit.All(recording("a", &log), recording("b", &log),
		limiterFunc(func(context.Context) (limit.Permit, error) { return limit.Permit{}, no }),
		recording("never", &log))
	if _, err := l.Acquire(t.Context()); err != no {
		t.Errorf("Acquire = %v; want the limiter's error, unchanged", err)
	}
	if got, want := fmt.Sprint(log), "[a b b unused a unused]"; got != want {
		t.Errorf("log = %v; want %v", got, want)
	}
}

func TestAllPanicUndoesTheEarlierOnes(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
	l := limit.All(c, limiterFunc(func(context.Context) (limit.Permit, error) { panic("broken") }))
	func() {
		defer func() {
			if v := recover(); v != "broken" {
				t.Errorf("recovered %v; want the limiter's panic", v)
			}
		}()
		l.Acquire(t.Context())
	}()
	if n := c.Stats().InUse; n != 0 {
		t.Errorf("%d permits in use; want 0", n)
	}
}

// A token acquired for a call that a later limiter rejects is returned.
func TestAllGivesTheTokenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRate(t, limit.RateOptions{PerSecond: 1, Burst: 3})
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1, Queue: 1})
		l := limit.All(r, c)
		p := admitted(t, l, t.Context())
		w := start(l, t.Context()) // waits in c, with a token of r
		for range 10 {
			_, err := l.Acquire(t.Context())
			refused(t, err, limit.QueueFull)
		}
		w.cancel(errGone)
		w.lost(t, errGone, 0)
		if s := r.Stats(); s.Tokens != 2 || s.Returned != 11 {
			t.Errorf("%v tokens, %d returned; want 2, 11", s.Tokens, s.Returned)
		}
		p.Release(limit.Success)
	})
}

// Releasing a copy of an old permit does not affect the permit that reuses its bundle.
func TestAllSecondReleaseDoesNothing(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 2, Queue: -1})
	l := limit.All(c, c)
	for range 100 {
		old := acquired(t, l, t.Context())
		old.Release(limit.Success)
		present := acquired(t, l, t.Context())
		old.Release(limit.Success)
		if n := c.Stats().InUse; n != 2 {
			t.Fatalf("%d permits in use; want 2", n)
		}
		present.Release(limit.Success)
	}
}

func TestAllOfNoneAndOfOne(t *testing.T) {
	acquired(t, limit.All(), t.Context()).Release(limit.Success)
	c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
	if l := limit.All(c); l != limit.Limiter(c) {
		t.Errorf("All(c) = %v; want c", l)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errGone)
	if _, err := limit.All().Acquire(ctx); err != errGone {
		t.Errorf("Acquire = %v; want %v", err, errGone)
	}
	defer func() {
		if v := recover(); v != "limit: All with a nil Limiter" {
			t.Errorf("recovered %v", v)
		}
	}()
	limit.All(c, nil)
}

func TestAllLeavesAtTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConcurrency(t, limit.ConcurrencyOptions{Limit: 1})
		l := limit.All(newRate(t, limit.RateOptions{PerSecond: 1, Burst: 2}), c)
		admitted(t, l, t.Context())
		w := start(l, within(t, time.Second))
		time.Sleep(time.Second)
		w.lost(t, context.DeadlineExceeded, time.Second)
	})
}

func TestAllPartsAndNames(t *testing.T) {
	c := newConcurrency(t, limit.ConcurrencyOptions{Name: "db", Limit: 1})
	r := newRate(t, limit.RateOptions{Name: "quota", PerSecond: 1})
	a, err := limit.NewAdaptive(limit.AdaptiveOptions{Name: "found"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		l    limit.Limiter
		want []limit.Limiter
	}{
		{nil, nil}, {limit.All(), nil}, {c, []limit.Limiter{c}},
		{limit.All(r, limit.All(a, c)), []limit.Limiter{r, a, c}},
	} {
		if got := limit.Parts(tt.l); !slices.Equal(got, tt.want) {
			t.Errorf("Parts(%v) = %v; want %v", tt.l, got, tt.want)
		}
	}
	if got := [3]string{c.Name(), r.Name(), a.Name()}; got != [3]string{"db", "quota", "found"} {
		t.Errorf("names %q; want the names in the options", got)
	}
}
