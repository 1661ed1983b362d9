package quota_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// api returns the terms of most tests: a lease of 200 ms leaves 18 of the burst of
// 20, and a batch is a quarter of that.
func api() quota.Terms {
	return quota.Terms{
		Name: "api", Rate: fleet.Rate{Permits: 10, Per: time.Second, Burst: 20},
		OnFailure: quota.FailClosed,
	}
}

func newLimiter(t *testing.T, m fleet.Meter, terms quota.Terms, more ...func(*quota.LimiterOptions)) *quota.Limiter {
	t.Helper()
	o := quota.LimiterOptions{Terms: terms, Key: fleet.Key{Namespace: "limits", Name: "api"}}
	for _, f := range more {
		f(&o)
	}
	l, err := quota.NewLimiter(m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// drain calls TryAcquire until a refusal, and returns the number of calls admitted
// before it.
func drain(t *testing.T, l *quota.Limiter) (n int) {
	t.Helper()
	for n < 10_000 {
		if _, err := l.TryAcquire(t.Context()); err != nil {
			return n
		}
		n++
	}
	t.Fatal("no call was refused")
	return n
}

// refused checks that err is a refusal.
func refused(t *testing.T, err error, reason limit.Reason, retry time.Duration) {
	t.Helper()
	var e *limit.Error
	if want := (limit.Error{Limiter: "api", Reason: reason, RetryAfter: retry}); !errors.As(err, &e) || *e != want {
		t.Errorf("Acquire = %v; want %v", err, &want)
	}
}

func TestLimiterGivesTheBurstAndTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		l := newLimiter(t, m, api())
		if n := drain(t, l); n != 18 {
			t.Errorf("%d admitted at once; want 20, minus the 2 that a lease takes", n)
		}
		in := 0
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			_, err := l.TryAcquire(t.Context())
			if err == nil {
				in++
				continue
			}
			// RetryAfter is at most the interval between permits, plus one and a half
			// times half a lease.
			e := (*limit.Error)(nil)
			if !errors.As(err, &e) || e.Reason != limit.RateExceeded || e.RetryAfter > 150*time.Millisecond {
				t.Fatalf("TryAcquire = %v; want a short RetryAfter", err)
			}
			time.Sleep(e.RetryAfter)
		}
		if in < 95 || in > 100 {
			t.Errorf("%d admitted in 10 s; want about 100, and not more", in)
		}
		time.Sleep(time.Hour)
		if n := drain(t, l); n != 18 {
			t.Errorf("after an hour %d admitted at once; want 18", n)
		}
		if m.rate.Burst != 18 || m.rate.Permits != 10 || m.rate.Per != time.Second {
			t.Errorf("the engine was called with %+v; want a burst of 18", m.rate)
		}
	})
}

func TestLimiterSharesTheRateWithOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		a, b := newLimiter(t, m, api()), newLimiter(t, m, api())
		if n := drain(t, a) + drain(t, b); n != 18 {
			t.Errorf("%d admitted by both; want 18", n)
		}
		time.Sleep(500 * time.Millisecond)
		if n := drain(t, b) + drain(t, a); n != 5 {
			t.Errorf("%d admitted by both after half a second; want 5", n)
		}
	})
}

// The lease begins when the request is sent, which is before the engine counts.
func TestLimiterLeaseBeginsWithTheQuestion(t *testing.T) {
	for _, row := range []struct {
		pause time.Duration
		takes int
	}{{99 * time.Millisecond, 2}, {100 * time.Millisecond, 3}} {
		synctest.Test(t, func(t *testing.T) {
			m := newModelMeter(0)
			m.oneWay = 30 * time.Millisecond
			l := newLimiter(t, m, api())
			var wg sync.WaitGroup
			for range 2 { // one permit for the first, two for the second
				wg.Go(func() {
					if _, err := l.TryAcquire(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			time.Sleep(20 * time.Millisecond) // at 140 ms; the second request was at 60
			if s := l.Stats(); s.Stock != 1 || s.Takes != 2 {
				t.Fatalf("Stats = %+v; want a permit in stock after 2 requests", s)
			}
			time.Sleep(row.pause + 20*time.Millisecond) // 259 or 260
			if _, err := l.TryAcquire(t.Context()); err != nil {
				t.Error(err)
			}
			if n := m.asked(); n != row.takes {
				t.Errorf("%v after its request, a permit cost %d requests; want %d", 180*time.Millisecond+row.pause-80*time.Millisecond, n, row.takes)
			}
		})
	}
}

// ignorant is a slow Meter that ignores its context.
type ignorant struct {
	*modelMeter
	delay time.Duration
}

func (m ignorant) Take(_ context.Context, k fleet.Key, r fleet.Rate, n int) (fleet.Taken, error) {
	t := m.count(k, r, n)
	time.Sleep(m.delay)
	return t, nil
}

func TestLimiterUsesNoAnswerAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, ignorant{newModelMeter(0), 199 * time.Millisecond}, api())
		if _, err := l.TryAcquire(t.Context()); err != nil {
			t.Errorf("TryAcquire = %v with a response within the lease", err)
		}
		l = newLimiter(t, ignorant{newModelMeter(0), 200 * time.Millisecond}, api())
		_, err := l.TryAcquire(t.Context())
		if !errors.Is(err, fleet.ErrUnavailable) {
			t.Errorf("TryAcquire = %v with a response after the lease; want ErrUnavailable", err)
		}
		if s := l.Stats(); s.Leased != 1 || s.Admitted != 0 || s.FailedTakes != 1 {
			t.Errorf("Stats = %+v; want a permit leased and lost", s)
		}
	})
}

// steady sends callers to the instances at perSecond each for d, and returns how many
// callers there were and how many each instance admitted.
func steady(t *testing.T, m fleet.Meter, terms quota.Terms, instances, perSecond int, d time.Duration) (decisions int, in []int) {
	in = make([]int, instances)
	var wg sync.WaitGroup
	for i := range instances {
		l := newLimiter(t, m, terms)
		wg.Go(func() {
			time.Sleep(time.Duration(i) * time.Millisecond)
			for range int(d.Seconds() * float64(perSecond)) {
				if _, err := l.TryAcquire(t.Context()); err == nil {
					in[i]++
				}
				time.Sleep(time.Second / time.Duration(perSecond))
			}
		})
	}
	wg.Wait()
	return instances * int(d.Seconds()*float64(perSecond)), in
}

func sum(ns []int) (n int) {
	for _, of := range ns {
		n += of
	}
	return n
}

// At 1,000 decisions per second one request serves at least ten of them.
func TestLimiterAsksAtMostOncePerTenDecisions(t *testing.T) {
	for _, row := range []struct {
		name                 string
		rate                 fleet.Rate
		instances, perSecond int
	}{
		{"below the limit", fleet.Rate{Permits: 2000, Per: time.Second, Burst: 2000}, 1, 1000},
		{"a small burst", fleet.Rate{Permits: 1000, Per: time.Second, Burst: 100}, 1, 1000},
		{"at twice the limit", fleet.Rate{Permits: 500, Per: time.Second, Burst: 500}, 1, 1000},
		{"at 100 times the limit", fleet.Rate{Permits: 10, Per: time.Second, Burst: 20}, 1, 1000},
		{"eight instances below the limit", fleet.Rate{Permits: 2000, Per: time.Second, Burst: 2000}, 8, 125},
		{"eight instances at twice the limit", fleet.Rate{Permits: 500, Per: time.Second, Burst: 500}, 8, 125},
		{"eight busy instances at eight times", fleet.Rate{Permits: 1000, Per: time.Second, Burst: 1000}, 8, 1000},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModelMeter(0)
				m.oneWay = 150 * time.Microsecond
				terms := quota.Terms{Rate: row.rate, OnFailure: quota.FailClosed}
				const d = 10 * time.Second
				decisions, in := steady(t, m, terms, row.instances, row.perSecond, d)
				if 10*m.asked() > decisions {
					t.Errorf("%d requests for %d decisions; want at most a tenth", m.asked(), decisions)
				}
				// The limit is used up: batches lose little of it, and pauses lose
				// nothing.
				most := min(decisions, row.rate.Permits*10)
				if got := sum(in); got < most*95/100 {
					t.Errorf("%d admitted; want about %d", got, most)
				}
				for i, n := range in {
					if n < most/row.instances/2 {
						t.Errorf("instance %d admitted %d, of %d in all; want at least half its part", i, n, sum(in))
					}
				}
				t.Logf("%d decisions, %d admitted, %d requests", decisions, sum(in), m.asked())
			})
		})
	}
}

func TestLimiterRefusalIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		terms := api()
		terms.Rate = fleet.Rate{Permits: 1, Per: time.Minute, Burst: 2}
		l := newLimiter(t, m, terms)
		if n := drain(t, l); n != 1 {
			t.Fatalf("%d admitted; want 1", n)
		}
		time.Sleep(10 * time.Second) // the last response was one permit of two
		_, err := l.TryAcquire(t.Context())
		refused(t, err, limit.RateExceeded, 50*time.Second)
		before := m.asked()
		for range 1000 {
			if _, err := l.TryAcquire(t.Context()); err == nil {
				t.Fatal("more than the limit was admitted")
			}
			time.Sleep(50 * time.Millisecond)
		}
		if n := m.asked() - before; n != 0 {
			t.Errorf("%d requests while there was no permit; want none", n)
		}
		if _, err := l.TryAcquire(t.Context()); err != nil {
			t.Errorf("TryAcquire = %v after RetryAfter", err)
		}
	})
}

func TestLimiterCallersShareAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		m.oneWay = 10 * time.Millisecond
		terms := api()
		terms.Rate.Burst, terms.MaxBatch = 1000, 100
		l := newLimiter(t, m, terms)
		var wg sync.WaitGroup
		for range 80 {
			wg.Go(func() {
				if _, err := l.TryAcquire(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		wg.Wait()
		if d := time.Since(began); d != 40*time.Millisecond || m.asked() != 2 {
			t.Errorf("80 callers took %v and %d requests; want 40ms and 2", d, m.asked())
		}
	})
}

// A batch covers the demand of half a lease, up to MaxBatch.
func TestLimiterBatchFollowsDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		terms := api()
		terms.Rate = fleet.Rate{Permits: 10_000, Per: time.Second, Burst: 10_000}
		terms.MaxBatch = 300
		l := newLimiter(t, m, terms)
		for range 20 { // rarely: one by one
			if _, err := l.TryAcquire(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(201 * time.Millisecond)
		}
		if m.largest != 1 || l.Stats().Leased != 20 {
			t.Errorf("a rare caller takes batches of %d, %d permits in all; want 1 and 20", m.largest, l.Stats().Leased)
		}
		for range 2000 {
			_, _ = l.TryAcquire(t.Context())
			time.Sleep(time.Millisecond)
		}
		if m.largest < 90 || m.largest > 110 {
			t.Errorf("1000 callers/s take batches of %d; want 100, the demand of half a lease", m.largest)
		}
		for range 2000 {
			_, _ = l.TryAcquire(t.Context())
			time.Sleep(50 * time.Microsecond)
		}
		if m.largest != 300 {
			t.Errorf("20,000 callers/s take batches of %d; want 300, the MaxBatch", m.largest)
		}
	})
}

func TestLimiterLostAnswersNeverGiveMore(t *testing.T) {
	for _, w := range []weather{{lostAnswer: 50}, {twice: 50}, {lost: 50, reload: 50}} {
		synctest.Test(t, func(t *testing.T) {
			m := newModelMeter(7)
			m.set(w)
			var l ledger
			terms := api()
			lim := newLimiter(t, m, terms)
			for range 1000 {
				if _, err := lim.TryAcquire(t.Context()); err == nil {
					l.letIn()
				}
				time.Sleep(10 * time.Millisecond)
			}
			if over := l.excess(terms.Rate); over > 0 || l.n() < 20 {
				t.Errorf("%+v: %d admitted, %d above the bound", w, l.n(), over)
			}
		})
	}
}
