package quota_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// try calls TryAcquire n times and returns how many calls were admitted, and the last
// error.
func try(t *testing.T, l *quota.Limiter, n int) (in int, err error) {
	for range n {
		_, e := l.TryAcquire(t.Context())
		if e == nil {
			in++
		} else {
			err = e
		}
	}
	return in, err
}

func TestLimiterFailOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		m.set(weather{down: true})
		terms := slowly()
		terms.OnFailure = quota.FailOpen
		l := newLimiter(t, m, terms)
		if n, err := try(t, l, 1000); n != 1000 {
			t.Errorf("%d of 1000 are admitted, %v; want all", n, err)
		}
		if s := l.Stats(); !s.Outage || s.Outages != 1 || s.OutageAdmitted != 1000 || s.Takes != 3 || s.FailedTakes != 3 {
			t.Errorf("Stats = %+v; want an outage found by 3 requests, and 1000 admitted", s)
		}
		m.set(weather{})
		time.Sleep(time.Second)
		if n, err := try(t, l, 1000); n != 1 {
			t.Errorf("%d admitted, %v; want 1, because the engine is back", n, err)
		}
		if s := l.Stats(); s.Outage || s.Outages != 1 || s.OutageAdmitted != 1000 {
			t.Errorf("Stats = %+v; want the outage to be over", s)
		}
	})
}

func TestLimiterFailClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		m.set(weather{down: true})
		terms := api()
		terms.Retry = 400 * time.Millisecond
		l := newLimiter(t, m, terms)
		n, err := try(t, l, 1000)
		var out *quota.OutageError
		if n != 0 || !errors.As(err, &out) || !errors.Is(err, fleet.ErrUnavailable) || !errors.Is(err, limit.ErrLimited) {
			t.Fatalf("%d admitted, %v; want none, and an OutageError", n, err)
		}
		refused(t, err, limit.RateExceeded, 400*time.Millisecond)
		if s := err.Error(); !strings.Contains(s, `"api"`) || !strings.Contains(s, "connection refused") || !strings.Contains(s, "400ms") {
			t.Errorf("Error = %q; want name, time and cause", s)
		}
		if s := l.Stats(); s.OutageRefused != 1000 || s.Refused.Total() != 1000 || s.Takes != 3 {
			t.Errorf("Stats = %+v; want 1000 refused, 3 requests", s)
		}
	})
}

// A single lost response is not an outage.
func TestLimiterOneFailureIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		l := newLimiter(t, m, api())
		for range 5 {
			m.set(weather{down: true})
			if n, _ := try(t, l, 2); n != 0 {
				t.Errorf("%d admitted; want none", n)
			}
			m.set(weather{})
			if n, err := try(t, l, 1); n != 1 {
				t.Errorf("TryAcquire = %v; want a request at once", err)
			}
			time.Sleep(time.Second)
		}
	})
}

// Callers wait for an engine that hangs three times, and then one caller waits per
// Retry.
func TestLimiterHungEngineDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		m.set(weather{hung: true})
		terms := slowly()
		terms.OnFailure = quota.FailOpen
		l := newLimiter(t, m, terms)
		const deadline = 75 * time.Millisecond
		for i, want := range []time.Duration{deadline, deadline, deadline, 0, 0, 0} {
			began := time.Now()
			if n, err := try(t, l, 1); n != 1 || time.Since(began) != want {
				t.Errorf("caller %d was admitted after %v, %v; want %v", i, time.Since(began), err, want)
			}
		}
		time.Sleep(time.Second)
		began := time.Now()
		var wg sync.WaitGroup
		var slow atomic.Int64
		for range 100 {
			wg.Go(func() {
				try(t, l, 1)
				if time.Since(began) > 0 {
					slow.Add(1)
				}
			})
		}
		wg.Wait()
		if n := slow.Load(); n != 1 {
			t.Errorf("%d of 100 wait for the engine; want only the one that tests it", n)
		}
	})
}

func TestLimiterLocalShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		m.set(weather{down: true})
		terms := quota.Terms{
			Name: "api", Rate: fleet.Rate{Permits: 100, Per: time.Second, Burst: 40},
			OnFailure: quota.FailLocalShare, Instances: 4,
		}
		l := newLimiter(t, m, terms)
		n, err := try(t, l, 100)
		if n != 1 {
			t.Errorf("%d admitted at once; want 1", n)
		}
		refused(t, err, limit.RateExceeded, 40*time.Millisecond)
		time.Sleep(time.Second)
		if n, _ := try(t, l, 100); n != 10 {
			t.Errorf("%d admitted after a second; want a quarter of the burst, 10", n)
		}
		time.Sleep(200 * time.Millisecond)
		if n, _ := try(t, l, 100); n != 5 {
			t.Errorf("%d admitted after 200ms more; want 5, a quarter of the rate", n)
		}
		began := time.Now()
		if _, err := l.Acquire(t.Context()); err != nil || time.Since(began) != 40*time.Millisecond {
			t.Errorf("Acquire = %v after %v; want 40ms", err, time.Since(began))
		}
		if s := l.Stats(); s.OutageAdmitted != 17 || s.Admitted != 17 || s.OutageRefused != 284 {
			t.Errorf("Stats = %+v; want 17 admitted and 284 refused in the outage", s)
		}
	})
}

// Many short outages give no more permits than a long one.
func TestLimiterLocalShareGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		terms := quota.Terms{
			Rate:      fleet.Rate{Permits: 10, Per: time.Second, Burst: 40},
			OnFailure: quota.FailLocalShare, Instances: 10, Retry: 100 * time.Millisecond,
		}
		l := newLimiter(t, m, terms)
		var local ledger
		for range 200 {
			m.set(weather{down: true})
			time.Sleep(200 * time.Millisecond)
			before := l.Stats().OutageAdmitted
			try(t, l, 10)
			for range l.Stats().OutageAdmitted - before {
				local.letIn()
			}
			m.set(weather{})
			time.Sleep(300 * time.Millisecond)
			try(t, l, 1) // the engine responds when it is tested
		}
		if over := local.excess(fleet.Rate{Permits: 1, Per: time.Second, Burst: 1}); over > 0 || local.n() < 90 {
			t.Errorf("%d admitted by the local share, %d above it", local.n(), over)
		}
	})
}

// If all instances lose the engine at once, their shares add up to the limit.
func TestLimiterLocalSharesTogetherKeepTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		terms := quota.Terms{
			Rate:      fleet.Rate{Permits: 10, Per: time.Second, Burst: 40},
			OnFailure: quota.FailLocalShare, Instances: 8,
		}
		var all ledger
		var fleetOf []*quota.Limiter
		for range 8 {
			fleetOf = append(fleetOf, newLimiter(t, m, terms))
		}
		for i := range 3000 {
			if i == 200 {
				m.set(weather{down: true})
			}
			for _, l := range fleetOf {
				if _, err := l.TryAcquire(t.Context()); err == nil {
					all.letIn()
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		rate := terms.Rate
		rate.Burst += 8 // one permit per instance, at the beginning
		if over := all.excess(rate); over > 0 || all.n() < 300 {
			t.Errorf("%d admitted, %d above the bound", all.n(), over)
		}
	})
}

// A caller that waits while the engine comes back is admitted by the engine.
func TestLimiterWaitersSeeTheEndOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		m.set(weather{down: true})
		terms := quota.Terms{
			Rate:      fleet.Rate{Permits: 1, Per: time.Minute, Burst: 60},
			OnFailure: quota.FailLocalShare, Instances: 10_000,
		}
		l := newLimiter(t, m, terms, func(o *quota.LimiterOptions) { o.MaxWait = -1 })
		try(t, l, 3)
		time.AfterFunc(1500*time.Millisecond, func() { m.set(weather{}) })
		began := time.Now()
		if _, err := l.Acquire(t.Context()); err != nil || time.Since(began) > 3*time.Second {
			t.Errorf("Acquire = %v after %v; want the first test of the engine after the outage", err, time.Since(began))
		}
	})
}

type panicking struct{}

func (panicking) Take(context.Context, fleet.Key, fleet.Rate, int) (fleet.Taken, error) {
	panic("oops")
}

type boasting struct{}

func (boasting) Take(_ context.Context, _ fleet.Key, _ fleet.Rate, n int) (fleet.Taken, error) {
	return fleet.Taken{Permits: n + 100, RetryAfter: -1}, nil
}

func TestLimiterBearsWithItsMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := newLimiter(t, panicking{}, api()).TryAcquire(t.Context())
		if !errors.Is(err, fleet.ErrUnavailable) || !strings.Contains(err.Error(), "oops") {
			t.Errorf("TryAcquire = %v with a meter that panics; want ErrUnavailable", err)
		}
		l := newLimiter(t, boasting{}, api())
		try(t, l, 3)
		if s := l.Stats(); s.Leased > s.Takes*4 || s.Admitted != 3 {
			t.Errorf("Stats = %+v; want no more than was requested", s)
		}
	})
}
