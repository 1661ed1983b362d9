package flighttest

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

var freshCases = []testCase{
	{name: "F4LateJoinerStartsNewFlight", tell: func(s *story) {
		first := s.ask(s.until(time.Second), "k", deaf(10*time.Second, 1))
		s.want(first, 0, context.DeadlineExceeded, time.Second)
		s.wantJoinable(0)
		s.at(2 * time.Second)
		second := s.ask(s.Context(), "k", deaf(18*time.Second, 2))
		s.at(11 * time.Second) // the first load has returned, and must not remove the second
		s.wantJoinable(1)
		third := s.ask(s.Context(), "k", s.unwanted)
		s.want(second, 2, nil, 20*time.Second)
		s.want(third, 2, nil, 20*time.Second)
		if second.joined || !third.joined {
			s.Errorf("joined = %v, %v; want false, true", second.joined, third.joined)
		}
	}},
	// A caller that arrives at the instant of the abandonment gets a correct result,
	// whether it joined the load in time or started a new one.
	{name: "F4JoinerAtTheInstantOfAbandonment", tell: func(s *story) {
		for range 500 {
			left := s.now() + ms
			s.ask(s.until(left), "k", s.load(2*ms, 42, nil))
			time.Sleep(ms)
			v, _, err := s.Do(s.Context(), "k", s.load(2*ms, 42, nil))
			if v != 42 || err != nil {
				s.Fatalf("Do = %d, %v; want 42, nil", v, err)
			}
			if wait := s.now() - left; wait != ms && wait != 2*ms {
				s.Fatalf("Do took %v; want 1ms (joined) or 2ms (new load)", wait)
			}
		}
	}},
	{name: "F4NoDoomedJoin", tell: func(s *story) {
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() { // these callers keep leaving too early
				for s.now() < 200*ms {
					ctx, cancel := context.WithTimeout(s.Context(), time.Duration(rand.IntN(3))*ms/2)
					s.Do(ctx, "k", s.load(2*ms, 42, nil))
					cancel()
					time.Sleep(time.Duration(1+rand.IntN(8)) * ms / 8)
				}
			})
			wg.Go(func() {
				for s.now() < 200*ms {
					if v, _, err := s.Do(s.Context(), "k", s.load(2*ms, 42, nil)); v != 42 || err != nil {
						s.Errorf("Do of a patient caller = %d, %v; want 42, nil", v, err)
					}
					time.Sleep(time.Duration(1+rand.IntN(32)) * ms / 8)
				}
			})
		}
		wg.Wait()
	}},

	{name: "F4NoResultIsOlderThanItsCaller", tell: func(s *story) {
		var loads, seen atomic.Int64 // seen: the latest load whose result a caller has
		var ends [1024]time.Duration
		load := func(context.Context) (int, error) {
			n := loads.Add(1)
			time.Sleep(2 * ms)
			ends[n] = s.now()
			return int(n), nil
		}
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				for s.now() < 700*ms {
					time.Sleep(time.Duration(rand.IntN(3*8)) * ms / 8)
					before, called := seen.Load(), s.now()
					n, _, err := s.Do(s.Context(), "k", load)
					if err != nil || int64(n) <= before || ends[n] < called {
						s.Errorf("caller %d: result %d from %v, %v; it called at %v, after another caller had result %d", i, n, ends[n], err, called, before)
					}
					if took := s.now() - called; took > 2*ms {
						s.Errorf("caller %d: Do took %v; want at most 2ms", i, took)
					}
					for v := before; v < int64(n) && !seen.CompareAndSwap(v, int64(n)); v = seen.Load() {
					}
				}
			})
		}
		wg.Wait()
		if n := loads.Load(); n < 100 || n > 351 {
			s.Errorf("%d loads; want 100 to 351: at most one at a time", n)
		}
	}},
}
