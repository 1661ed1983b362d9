package loads_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/limit"
)

var errNoSpare = &limit.Error{Limiter: "test", Reason: limit.NoSpare, RetryAfter: time.Second}

// The whole life of a load that hangs and ignores its context: stale value at
// the soft timeout, error at the hard one, the key free again at once, the
// permit only when the load returns.
func TestB1HungLoad(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 2})
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleIfError: 10 * time.Second, SoftTimeout: 100 * ms, LoadTimeout: 5 * time.Second, Limiter: c})
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 0)

		m.Takes, m.Deaf = time.Minute, true
		s.At(2 * time.Second)
		s.Want(s.Get(s.Context(), g, "k"), 1, nil, 2100*ms) // the soft timeout
		refresh := s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "k") })
		cold := s.Get(s.Context(), g, "cold") // nothing to serve: waits on
		s.At(6999 * ms)
		rig.WantGauges(s, g, weir.Stats{Flights: 2, Running: 2})
		s.At(7 * time.Second) // the hard timeout of the first
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 2, Stuck: 1})
		var hard *weir.TimeoutError
		if r := s.Want(refresh, 0, context.DeadlineExceeded, 7*time.Second); !errors.As(r.Err, &hard) || hard.Soft || hard.After != 5*time.Second {
			s.Errorf("Err = %v; want the hard timeout", r.Err)
		}
		s.Want(cold, 0, context.DeadlineExceeded, 7100*ms)
		rig.WantInUse(s, c, 2)

		m.Takes = 0
		queued := s.Get(s.Context(), g, "k") // a load of its own, but no permit
		s.Want(queued, 1, nil, 7200*ms)      // stale at the soft timeout
		if queued.Joined {
			s.Error("Joined = true; want a new flight after the hard timeout")
		}
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 3, Stuck: 2})
		s.At(62 * time.Second) // the first has returned
		s.Want(s.Get(s.Context(), g, "k"), 4, nil, 62*time.Second)
		s.At(63 * time.Second)
		rig.WantGauges(s, g, weir.Stats{})
		rig.WantInUse(s, c, 0)
		if st := g.Stats(); st.LoadTimeouts != 2 || st.LoadFailures != 2 {
			s.Errorf("LoadTimeouts, LoadFailures = %d, %d; want 2, 2", st.LoadTimeouts, st.LoadFailures)
		}
	})
}

func TestB1SlotIsFreeAfterTheHardTimeout(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Minute, Deaf: true}
		g := s.Guard(m.Load, weir.Options{TTL: time.Hour, LoadTimeout: time.Second})
		s.Want(s.Get(s.Context(), g, "k"), 0, context.DeadlineExceeded, time.Second)
		m.Takes = 0
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, time.Second)
		s.At(2 * time.Minute) // the hung load has returned a 1, which counts no more
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, 2*time.Minute)
		s.WantRuns(m, 2)
	})
}

// The hard timeout counts from the admission, not from the start of the wait.
func TestB1HardTimeoutCountsFromAdmission(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 900 * ms}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1, OverloadAfter: -1})
		g := s.Guard(m.Load, weir.Options{LoadTimeout: time.Second, Limiter: c})
		var all []*rig.Answer
		for i := range 5 {
			all = append(all, s.Get(s.Context(), g, fmt.Sprint(i)))
		}
		for i, a := range all {
			s.Want(a, i+1, nil, time.Duration(i+1)*900*ms)
		}
		if n := g.Stats().LoadTimeouts; n != 0 {
			s.Errorf("LoadTimeouts = %d; want 0", n)
		}
	})
}

func TestB1StuckLoadsAreBounded(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleIfError: time.Hour, LoadTimeout: time.Second, MaxStuck: 2})
		g.Get(s.Context(), "stale")
		m.Takes, m.Deaf = time.Minute, true
		s.At(2 * time.Second)
		a, b := s.Get(s.Context(), g, "a"), s.Get(s.Context(), g, "b")
		running := s.Get(s.Context(), g, "stale")
		s.Want(a, 0, context.DeadlineExceeded, 3*time.Second)
		s.Want(b, 0, context.DeadlineExceeded, 3*time.Second)
		s.Want(running, 1, nil, 3*time.Second)
		m.Takes = 0
		rig.WantGauges(s, g, weir.Stats{Running: 3, Stuck: 3})

		get := func(key string) weir.Result[int] { return g.GetResult(s.Context(), key) }
		if r := get("cold"); r.Err != weir.ErrStuck {
			s.Errorf("Get of a cold key = %v; want ErrStuck", r.Err)
		}
		if r := get("stale"); r.Value != 1 || r.Err != nil || r.State != weir.StateStaleOnError || r.Cause != weir.ErrStuck {
			s.Errorf("Get of a stale key = %+v; want 1, stale because of ErrStuck", r)
		}
		if r := g.RefreshResult(s.Context(), "stale"); r.Err != weir.ErrStuck {
			s.Errorf("Refresh = %v; want ErrStuck", r.Err)
		}
		many := g.GetMany(s.Context(), []string{"cold", "stale"})
		if r := many["cold"]; r.Err != weir.ErrStuck {
			s.Errorf("GetMany of a cold key = %v; want ErrStuck", r.Err)
		}
		if r := many["stale"]; r.Value != 1 || r.Cause != weir.ErrStuck {
			s.Errorf("GetMany of a stale key = %+v; want 1, stale because of ErrStuck", r)
		}
		if st := g.Stats(); st.StuckRefusals != 5 || st.Loads != 4 {
			s.Errorf("StuckRefusals, Loads = %d, %d; want 5, 4", st.StuckRefusals, st.Loads)
		}
		s.At(62 * time.Second) // all have returned
		rig.WantGauges(s, g, weir.Stats{})
		s.Want(s.Get(s.Context(), g, "cold"), 5, nil, 62*time.Second)
	})
}

// A background refresh that hangs: the value is served all the time, and the
// key is refreshed again after the hard timeout and RefreshRetry.
func TestB1HungRefresh(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 3})
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour, LoadTimeout: 5 * time.Second, RefreshRetry: 2 * time.Second, Limiter: c})
		g.Get(s.Context(), "k")
		m.Takes, m.Deaf = time.Minute, true
		for i := range 15 { // from 2 s to 9 s
			s.At(2*time.Second + time.Duration(i)*500*ms)
			s.Want(s.Get(s.Context(), g, "k"), 1, nil, s.Now())
			if i == 0 {
				rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1, Refreshing: 1})
				m.Takes = 0
			}
		}
		s.At(9500 * ms) // the second was started at 9 s: timeout at 7 s, and 2 s
		s.Want(s.Get(s.Context(), g, "k"), 3, nil, 9500*ms)
		rig.WantGauges(s, g, weir.Stats{Running: 1, Refreshing: 1, Stuck: 1})
		rig.WantInUse(s, c, 1)
		s.At(70 * time.Second)
		rig.WantInUse(s, c, 0)
	})
}

// strangers is the number of goroutines that the rest of the process may start
// while a test counts its own.
const strangers = 5

func TestB2AThousandStaleHitsStartOneGoroutine(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour})
		g.Get(s.Context(), "k")
		m.Takes = time.Second
		s.At(2 * time.Second)
		before := runtime.NumGoroutine()
		for range 1000 {
			if v, err := g.Get(s.Context(), "k"); v != 1 || err != nil {
				s.Fatalf("Get = %d, %v; want 1, nil", v, err)
			}
		}
		if n := runtime.NumGoroutine() - before; n > 1+strangers {
			s.Errorf("%d goroutines more; want 1", n)
		}
		var wg sync.WaitGroup
		for range 500 {
			wg.Go(func() { g.Get(s.Context(), "k") })
		}
		wg.Wait()
		s.At(3 * time.Second)
		s.WantRuns(m, 2)
		if st := g.Stats(); st.Refreshes != 1 || st.StaleHits != 1500 || st.RefreshesSkipped != 0 {
			s.Errorf("Refreshes, StaleHits, RefreshesSkipped = %d, %d, %d; want 1, 1500, 0", st.Refreshes, st.StaleHits, st.RefreshesSkipped)
		}
	})
}

func TestB2BackgroundRefreshesAreBounded(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour, MaxRefreshes: 8})
		for i := range 1000 {
			g.Get(s.Context(), fmt.Sprint(i))
		}
		m.Takes = time.Second
		s.At(2 * time.Second)
		before := runtime.NumGoroutine()
		for i := range 1000 {
			if v, err := g.Get(s.Context(), fmt.Sprint(i)); v != i+1 || err != nil {
				s.Errorf("Get(%d) = %d, %v; want %d, nil", i, v, err, i+1)
			}
		}
		if n := runtime.NumGoroutine() - before; n > 8+strangers {
			s.Errorf("%d goroutines more; want 8", n)
		}
		rig.WantGauges(s, g, weir.Stats{Flights: 8, Running: 8, Refreshing: 8})
		if n := g.Stats().RefreshesSkipped; n != 992 {
			s.Errorf("RefreshesSkipped = %d; want 992", n)
		}
		s.At(3 * time.Second)
		rig.WantGauges(s, g, weir.Stats{})
		s.Want(s.Get(s.Context(), g, "999"), 1000, nil, 3*time.Second) // was skipped: the next hit tries
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1, Refreshing: 1})
		s.At(4 * time.Second)
		s.WantRuns(m, 1009)
	})
}

// A miss is not delayed when MaxRefreshes is reached.
func TestB2MissIsNotBoundByMaxRefreshes(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour, MaxRefreshes: 1})
		g.Get(s.Context(), "a")
		g.Get(s.Context(), "b")
		m.Takes = 10 * time.Second
		s.At(2 * time.Second)
		g.Get(s.Context(), "a")
		g.Get(s.Context(), "b") // skipped
		s.At(2 * time.Second)
		m.Takes = time.Second
		s.Want(s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "b") }), 4, nil, 3*time.Second)
	})
}

// Background refreshes leave the limiter's reserve to misses.
func TestB2RefreshesNeverTakeTheLastPermits(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 4, Reserve: 2, Queue: -1})
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour, Limiter: c})
		for i := range 10 {
			g.Get(s.Context(), fmt.Sprint(i))
		}
		m.Takes = 500 * ms
		s.At(2 * time.Second)
		for i := range 10 {
			g.Get(s.Context(), fmt.Sprint(i))
		}
		s.At(2 * time.Second)
		rig.WantInUse(s, c, 2)
		rig.WantGauges(s, g, weir.Stats{Flights: 2, Running: 2, Refreshing: 2})
		a, b := s.Get(s.Context(), g, "miss a"), s.Get(s.Context(), g, "miss b")
		s.Want(a, 13, nil, 2500*ms)
		s.Want(b, 14, nil, 2500*ms)
		if st := g.Stats(); st.RefreshesSkipped != 8 || st.Refusals != 0 {
			s.Errorf("RefreshesSkipped, Refusals = %d, %d; want 8, 0", st.RefreshesSkipped, st.Refusals)
		}
	})
}

// A refresh without a spare permit is postponed by RefreshRetry, and a caller
// that comes meanwhile is not refused because of it.
func TestB2RefusedRefresh(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		asked := 0
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour, RefreshRetry: 3 * time.Second,
			Limiter: rig.LimiterFunc(func(ctx context.Context) (limit.Permit, error) {
				if limit.PriorityOf(ctx) == limit.Background {
					asked++
					return limit.Permit{}, errNoSpare
				}
				return limit.Permit{}, nil
			})})
		g.Get(s.Context(), "k")
		for i := range 12 { // from 2 s to 7.5 s
			s.At(2*time.Second + time.Duration(i)*500*ms)
			s.Want(s.Get(s.Context(), g, "k"), 1, nil, s.Now())
		}
		if asked != 2 {
			s.Errorf("asked for a permit %d times; want twice in 6 s", asked)
		}
		s.Want(s.Ask(func() weir.Result[int] { return g.RefreshResult(s.Context(), "k") }), 2, nil, s.Now())
		if st := g.Stats(); st.RefreshesSkipped != 2 || st.Refreshes != 0 || st.Refusals != 0 {
			s.Errorf("RefreshesSkipped, Refreshes, Refusals = %d, %d, %d; want 2, 0, 0", st.RefreshesSkipped, st.Refreshes, st.Refusals)
		}
	})
}

// A caller joins a background refresh while that asks for its permit: it
// becomes the caller's load, and is not refused.
func TestB2RefusedRefreshIsPromotedForAJoiner(t *testing.T) {
	for name, row := range map[string]struct {
		foreground error // what the second request for a permit gets
		value      int
	}{
		"admitted": {nil, 2},
		"refused":  {&limit.Error{Reason: limit.QueueFull, RetryAfter: time.Second}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			rig.Tell(t, func(s *rig.Story) {
				m := &rig.Mill{}
				g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Second,
					Limiter: rig.LimiterFunc(func(ctx context.Context) (limit.Permit, error) {
						if m.Runs.Load() == 0 {
							return limit.Permit{}, nil
						}
						if limit.PriorityOf(ctx) == limit.Background {
							time.Sleep(time.Second)
							return limit.Permit{}, errNoSpare
						}
						return limit.Permit{}, row.foreground
					})})
				g.Get(s.Context(), "k")
				s.At(1900 * ms)
				s.Want(s.Get(s.Context(), g, "k"), 1, nil, 1900*ms) // stale; starts the refresh
				s.At(2500 * ms)
				s.Want(s.Get(s.Context(), g, "k"), row.value, row.foreground, 2900*ms)
				if n := g.Stats().RefreshesSkipped; n != 0 {
					s.Errorf("RefreshesSkipped = %d; want 0", n)
				}
			})
		})
	}
}

// F5: a load that ends between the look at a stale entry and the start of its
// refresh makes the refresh unnecessary. Clone runs between the two.
func TestF5RefreshLooksAgain(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		var g *weir.Guard[string, int]
		meanwhile := func() {}
		g = rig.GuardFrom(s, weir.Source[string, int]{Load: m.Load, Clone: func(v int) int {
			do := meanwhile
			meanwhile = func() {}
			do()
			return v
		}}, weir.Options{TTL: time.Second, StaleWhileRevalidate: time.Hour})
		g.Get(s.Context(), "k")
		s.At(2 * time.Second)
		meanwhile = func() { g.RefreshResult(s.Context(), "k") }
		s.WantMany(s.Many(s.Context(), g, "k"), 2*time.Second, map[string]any{"k": 1})
		s.At(2500 * ms)
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, 2500*ms)
		s.WantRuns(m, 2)
	})
}

// A value that is set while a caller waits for the soft timeout is fresh, not
// stale on error; the load is no longer needed and is given up.
func TestB1SetBeforeTheSoftTimeout(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleIfError: time.Hour, SoftTimeout: 100 * ms})
		g.Get(s.Context(), "k")
		m.Takes = time.Minute
		s.At(2 * time.Second)
		a := s.Get(s.Context(), g, "k")
		s.At(2050 * ms)
		g.Set(s.Context(), "k", 70)
		if r := s.Want(a, 70, nil, 2100*ms); r.State != weir.StateFresh || r.Cause != nil || r.Age != 50*ms {
			s.Errorf("State, Cause, Age = %v, %v, %v; want fresh, nil, 50ms", r.State, r.Cause, r.Age)
		}
		s.At(2100 * ms)
		rig.WantGauges(s, g, weir.Stats{})
	})
}

func TestB5RefusalIsAnErrorAndNeverKept(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Name: "pool", Limit: 1, Queue: -1})
		memo := weir.Backoff{Initial: time.Hour}
		g := s.Guard(m.Load, weir.Options{TTL: time.Minute, NegativeTTL: time.Hour, Limiter: c,
			FailureMemo: weir.FailureMemo{Transient: memo, Permanent: memo, Overload: memo}})
		first := s.Get(s.Context(), g, "first")
		calls := map[string]func() error{
			"Get":     func() error { _, err := g.Get(s.Context(), "k"); return err },
			"Refresh": func() error { return g.RefreshResult(s.Context(), "k").Err },
			"GetMany": func() error { return g.GetMany(s.Context(), []string{"k"})["k"].Err },
		}
		for name, call := range calls {
			err := call()
			var refusal *limit.Error
			if !errors.As(err, &refusal) || refusal.RetryAfter <= 0 || refusal.Limiter != "pool" || refusal.Reason != limit.QueueFull {
				s.Errorf("%s = %v; want a refusal of the pool with RetryAfter", name, err)
			}
		}
		if _, ok := g.Peek("k"); ok || s.Now() != 0 {
			s.Errorf("at %v: Peek finds something: %v; want refusals at once that leave nothing", s.Now(), ok)
		}
		s.Want(first, 1, nil, time.Second)
		s.Want(s.Get(s.Context(), g, "k"), 2, nil, 2*time.Second)
		if st := g.Stats(); st.Refusals != 3 || st.LoadFailures != 0 || st.MemoHits != 0 || st.Loads != 2 {
			s.Errorf("Refusals, LoadFailures, MemoHits, Loads = %d, %d, %d, %d; want 3, 0, 0, 2", st.Refusals, st.LoadFailures, st.MemoHits, st.Loads)
		}
	})
}

func TestB5StaleValueInPlaceOfARefusal(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		g := s.Guard(m.Load, weir.Options{TTL: time.Second, StaleIfError: 9 * time.Second, LoadTimeout: -1, Limiter: c})
		g.Get(s.Context(), "k")
		m.Takes = 20 * time.Second
		s.At(2 * time.Second)
		other := s.Get(s.Context(), g, "other")
		var refusal *limit.Error
		for range 3 {
			r := g.GetResult(s.Context(), "k")
			if r.Value != 1 || r.Err != nil || r.State != weir.StateStaleOnError || !errors.As(r.Cause, &refusal) || r.Age != 2*time.Second {
				s.Errorf("Get = %+v; want 1, stale because of a refusal", r)
			}
		}
		s.At(10 * time.Second) // beyond the window
		if r := g.GetResult(s.Context(), "k"); !errors.As(r.Err, &refusal) {
			s.Errorf("Get = %+v; want the refusal", r)
		}
		if n := g.Stats().Refusals; n != 4 {
			s.Errorf("Refusals = %d; want 4", n)
		}
		s.Want(other, 2, nil, 22*time.Second)
	})
}

func TestB5HitsAndJoinersTakeNoPermit(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		g := s.Guard(m.Load, weir.Options{TTL: time.Minute, Limiter: c})
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if v, err := g.Get(s.Context(), "k"); v != 1 || err != nil {
					s.Errorf("Get = %d, %v; want 1, nil", v, err)
				}
			})
		}
		wg.Wait()
		busy := s.Get(s.Context(), g, "busy")
		for range 1000 {
			if v, err := g.Get(s.Context(), "k"); v != 1 || err != nil {
				s.Errorf("hit while all permits are out = %d, %v; want 1, nil", v, err)
			}
		}
		s.Want(busy, 2, nil, 2*time.Second)
		if st := c.Stats(); st.Admitted != 2 || st.Refused.Total() != 0 {
			s.Errorf("%d admitted, %d refused; want 2, 0", st.Admitted, st.Refused.Total())
		}
	})
}

// A caller that leaves while its load waits for admission leaves the queue too;
// that is not a refusal. Its token comes back from a RateLimiter.
func TestB5LeavingTheQueueIsNoRefusal(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
		rate, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 0.001, Burst: 3})
		if err != nil {
			s.Fatal(err)
		}
		g := s.Guard(m.Load, weir.Options{Limiter: limit.All(rate, c)})
		first := s.Get(s.Context(), g, "first")
		s.Want(s.Get(s.Until(100*ms), g, "k"), 0, context.DeadlineExceeded, 100*ms)
		s.At(100 * ms)
		rig.WantGauges(s, g, weir.Stats{Flights: 1, Running: 1})
		s.Want(first, 1, nil, time.Second)
		if st := g.Stats(); st.Refusals != 0 || st.Loads != 1 || st.Abandoned != 1 {
			s.Errorf("Refusals, Loads, Abandoned = %d, %d, %d; want 0, 1, 1", st.Refusals, st.Loads, st.Abandoned)
		}
		if st := rate.Stats(); st.Returned != 1 || c.Stats().Left != 1 {
			s.Errorf("%d tokens returned, %d left the queue; want 1, 1", st.Returned, c.Stats().Left)
		}
	})
}

// F3: a flight queues with the priority of its most important joiner, not that
// of the caller that started it.
func TestF3FlightQueuesWithItsHighestPriority(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
		busy := true
		g := s.Guard(m.Load, weir.Options{Limiter: rig.LimiterFunc(func(ctx context.Context) (limit.Permit, error) {
			if busy && limit.PriorityOf(ctx) == limit.Background {
				time.Sleep(100 * ms) // like a limiter that queues it
			}
			return c.Acquire(ctx)
		})})
		busy = false
		first := s.Get(s.Context(), g, "first")
		busy = true
		background := s.Get(limit.ContextWithPriority(s.Context(), limit.Background), g, "k")
		s.At(50 * ms)
		normal := s.Get(s.Context(), g, "k")
		s.Want(first, 1, nil, time.Second)
		s.Want(normal, 2, nil, 2*time.Second)
		s.Want(background, 2, nil, 2*time.Second)
	})
}

// F3 and B4: a caller whose wait for admission would outlast its deadline is
// refused at once.
func TestF3FlightIsRefusedForItsCallersDeadline(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
		g := s.Guard(m.Load, weir.Options{Limiter: c})
		s.Want(s.Get(s.Context(), g, "a"), 1, nil, time.Second) // a load takes 1 s: measured
		b := s.Get(s.Context(), g, "b")
		hasty := s.Get(s.Until(1500*ms), g, "k") // its turn comes at 2 s
		many := s.Many(s.Until(1500*ms), g, "l")
		s.Want(hasty, 0, limit.ErrLimited, time.Second)
		s.WantMany(many, time.Second, map[string]any{"l": limit.ErrLimited})
		patient := s.Get(s.Until(2500*ms), g, "k")
		s.Want(b, 2, nil, 2*time.Second)
		s.Want(patient, 0, context.DeadlineExceeded, 2500*ms) // admitted at 2 s
	})
}

// F3 and B4: so is a caller with an earlier deadline than the callers that wait
// in the limiter's queue for the same key, by Get, Refresh and GetMany. The
// waiting callers are not affected. One that can be served in time joins.
func TestF3JoinerWithAnEarlierDeadlineIsRefusedAtOnce(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
		g := s.Guard(m.Load, weir.Options{Limiter: c})
		s.Want(s.Get(s.Context(), g, "a"), 1, nil, time.Second) // a load takes 1 s: measured
		b := s.Get(s.Context(), g, "b")
		patient := s.Get(s.Context(), g, "k") // its turn comes at 2 s
		s.At(1200 * ms)
		hasty := s.Get(s.Until(1900*ms), g, "k")
		many := s.Many(s.Until(1900*ms), g, "k")
		s.Want(hasty, 0, limit.ErrLimited, 1200*ms)
		s.WantMany(many, 1200*ms, map[string]any{"k": limit.ErrLimited})
		if r := g.RefreshResult(s.Until(1900*ms), "k"); !errors.Is(r.Err, limit.ErrLimited) {
			s.Errorf("Refresh = %v; want a refusal", r.Err)
		}
		joins := s.Get(s.Until(3500*ms), g, "k")
		s.Want(b, 2, nil, 2*time.Second)
		s.Want(patient, 3, nil, 3*time.Second)
		s.Want(joins, 3, nil, 3*time.Second)
		if n, m := g.Stats().Refusals, c.Stats().Refused[limit.WaitTooLong]; n != 3 || m != 3 {
			s.Errorf("the Guard counts %d refusals, the limiter %d for deadlines; want 3, 3", n, m)
		}
	})
}

// F3: a joiner of a higher class moves the queued flight up.
func TestF3JoinerOfAHigherClassMovesTheFlightUp(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Second}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
		g := s.Guard(m.Load, weir.Options{Limiter: c})
		a := s.Get(s.Context(), g, "a")
		b := s.Get(s.Context(), g, "b")
		low := s.Get(limit.ContextWithPriority(s.Context(), limit.Low), g, "k")
		s.At(500 * ms)
		high := s.Get(limit.ContextWithPriority(s.Context(), limit.High), g, "k")
		s.Want(a, 1, nil, time.Second)
		s.Want(high, 2, nil, 2*time.Second)
		s.Want(low, 2, nil, 2*time.Second)
		s.Want(b, 3, nil, 3*time.Second)
	})
}

// F3: a refusal for one caller's deadline does not reach a joined caller with a
// later deadline, nor one without a deadline.
func TestF3RefusalForADeadlineGoesToThatCallerOnly(t *testing.T) {
	for _, later := range []time.Duration{0, 5 * time.Second} {
		rig.Tell(t, func(s *rig.Story) {
			m := &rig.Mill{Takes: time.Second}
			c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1})
			busy := false
			g := s.Guard(m.Load, weir.Options{Limiter: rig.LimiterFunc(func(ctx context.Context) (limit.Permit, error) {
				if _, ok := ctx.Deadline(); ok && busy {
					time.Sleep(100 * ms) // others join meanwhile
				}
				return c.Acquire(ctx)
			})})
			s.Want(s.Get(s.Context(), g, "a"), 1, nil, time.Second)
			b := s.Get(s.Context(), g, "b")
			s.At(time.Second + 1)
			busy = true
			hasty := s.Get(s.Until(1500*ms), g, "k") // its turn comes at 2 s
			s.At(1050 * ms)
			ctx := s.Context()
			if later > 0 {
				ctx = s.Until(later)
			}
			patient := s.Get(ctx, g, "k")
			s.Want(hasty, 0, context.DeadlineExceeded, 1500*ms)
			s.Want(b, 2, nil, 2*time.Second)
			s.Want(patient, 3, nil, 3*time.Second)
		})
	}
}

// B4: the limiter's MaxWait applies to a flight that was queued with a deadline
// and joined by a caller without one.
func TestB4MaxWaitHoldsForAFlightOfManyCallers(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: time.Hour}
		c := rig.Concurrency(s, limit.ConcurrencyOptions{Limit: 1, MaxWait: 10 * time.Second})
		g := s.Guard(m.Load, weir.Options{Limiter: c, LoadTimeout: 2 * time.Hour})
		busy := s.Get(s.Context(), g, "busy")
		hasty := s.Get(s.Until(5*time.Second), g, "k")
		patient := s.Get(s.Context(), g, "k")
		s.Want(hasty, 0, context.DeadlineExceeded, 5*time.Second)
		s.Want(patient, 0, limit.ErrLimited, 10*time.Second+1)
		s.Want(busy, 1, nil, time.Hour)
	})
}
