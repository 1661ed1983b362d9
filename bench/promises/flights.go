package promises

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const ms = time.Millisecond

func leaderLeaves(l Library) verdict {
	s := set(l, Setup[string]{}, func(ctx context.Context, _ int) (string, error) {
		return "value", pause(ctx, 100*ms)
	})
	ctx, cancel := context.WithCancel(context.Background())
	s.ask(ctx, "k")
	time.Sleep(5 * ms)
	followers := s.crowd(9, "k")
	time.Sleep(5 * ms)
	cancel()
	notes := unlike(followers, func(c *call) bool { return c.got("value") })
	return broken(append(notes, s.wantLoads(1)...)...)
}

func ownDeadline(l Library) verdict {
	s := set(l, Setup[string]{}, func(context.Context, int) (string, error) {
		time.Sleep(time.Second) // whatever the context says
		return "value", nil
	})
	var notes []string
	ask := func(who string, d time.Duration) func() {
		ctx, cancel := context.WithTimeout(context.Background(), d)
		c := s.ask(ctx, "k")
		return func() {
			defer cancel()
			switch {
			case c.hangs():
				notes = append(notes, who+" never left")
			case c.after != d:
				notes = append(notes, fmt.Sprintf("%s left after %v instead of %v", who, c.after, d))
			}
		}
	}
	leader := ask("the first caller", 50*ms)
	time.Sleep(ms)
	follower := ask("a follower", 80*ms)
	patient := s.ask(context.Background(), "k")
	leader()
	follower()
	if !patient.got("value") {
		notes = append(notes, "the patient caller: "+patient.outcome())
	}
	return broken(notes...)
}

func lateCaller(l Library) verdict {
	s := set(l, Setup[string]{}, func(ctx context.Context, _ int) (string, error) {
		err := pause(ctx, 100*ms)
		if err != nil {
			time.Sleep(50 * ms) // slow to notice
		}
		return "value", err
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*ms)
	defer cancel()
	s.ask(ctx, "k")
	time.Sleep(20 * ms)
	late := s.crowd(1, "k")
	return broken(unlike(late, func(c *call) bool { return c.got("value") })...)
}

func abandoned(l Library) verdict {
	var ended atomic.Int64 // when the load ended, since the start
	start := time.Now()
	s := set(l, Setup[string]{}, func(ctx context.Context, _ int) (string, error) {
		err := pause(ctx, 10*time.Second)
		ended.Store(int64(time.Since(start)))
		return "value", err
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*ms)
	defer cancel()
	s.ask(ctx, "k")
	time.Sleep(20 * time.Second)
	if d := time.Duration(ended.Load()); d > 11*ms {
		return broken(fmt.Sprintf("it ran for %v more", d-10*ms))
	}
	return kept()
}

// noZombie lets 64 callers call in a loop. A caller that came after another had
// already received a result must not receive the same one.
func noZombie(l Library) verdict {
	const callers, length = 64, 700 * ms
	var clock, old, asked atomic.Int64
	handed := make([]atomic.Int64, 1<<20) // indexed by load: when its result was first returned
	s := set(l, Setup[string]{NoStore: true}, func(_ context.Context, n int) (string, error) {
		time.Sleep(2 * ms)
		return fmt.Sprint(n), nil
	})
	end := time.Now().Add(length)
	var done sync.WaitGroup
	for range callers {
		done.Go(func() {
			for time.Now().Before(end) && old.Load() < 1000 {
				came := clock.Add(1)
				v, err := s.Get(context.Background(), "k")
				var n int
				if _, scan := fmt.Sscan(v, &n); err != nil || scan != nil {
					panic(fmt.Sprintf("get = %q, %v", v, err))
				}
				asked.Add(1)
				if !handed[n].CompareAndSwap(0, clock.Add(1)) && handed[n].Load() < came {
					old.Add(1)
				}
			}
		})
	}
	done.Wait()
	if n := old.Load(); n > 0 {
		return broken(fmt.Sprintf("%d of %d results were from before their calls", n, asked.Load()))
	}
	return kept()
}

func panics(l Library) verdict {
	return ends(l, func() { panic("boom") })
}

func goexits(l Library) verdict {
	return ends(l, runtime.Goexit)
}

// ends tests a load that does not return, with nine waiting callers, and one that
// comes later.
func ends(l Library, end func()) verdict {
	s := set(l, Setup[string]{}, func(_ context.Context, n int) (string, error) {
		time.Sleep(50 * ms)
		if n == 1 {
			end()
		}
		return "value", nil
	})
	calls := s.crowd(10, "k")
	notes := unlike(calls, (*call).failed)
	if next := s.ask(context.Background(), "k"); !next.got("value") {
		notes = append(notes, "the next caller: "+next.outcome())
	}
	return broken(notes...)
}

func noFalseSuccess(l Library) verdict {
	var notes []string
	for _, end := range []struct {
		how string
		do  func()
	}{{"Goexit", runtime.Goexit}, {"panic", func() { panic("boom") }}} {
		s := set(l, Setup[string]{}, func(context.Context, int) (string, error) {
			time.Sleep(50 * ms)
			end.do()
			return "value", nil
		})
		for _, note := range unlike(s.crowd(10, "k"), func(c *call) bool {
			return c.hangs() || c.exited || c.panicked != nil || c.err != nil || c.value != ""
		}) {
			notes = append(notes, end.how+": "+note)
		}
	}
	return broken(notes...)
}

func hungLoad(l Library) verdict {
	s := set(l, Setup[string]{}, func(_ context.Context, n int) (string, error) {
		if n == 1 {
			time.Sleep(1000 * time.Hour)
		}
		return "value", nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.ask(ctx, "k")
	time.Sleep(time.Minute)
	next := s.crowd(1, "k")
	return broken(unlike(next, func(c *call) bool { return c.got("value") })...)
}

func sharedFailure(l Library) verdict {
	s := set(l, Setup[string]{}, func(context.Context, int) (string, error) {
		time.Sleep(300 * ms)
		return "", errors.New("source is down")
	})
	calls := s.crowd(10, "k")
	notes := unlike(calls, (*call).failed)
	var last time.Duration
	for _, c := range calls {
		last = max(last, c.after)
	}
	if last > 300*ms {
		notes = append(notes, fmt.Sprintf("the last answer after %v", last))
	}
	return broken(append(notes, s.wantLoads(1)...)...)
}

func structKeys(l Library) verdict {
	if l.OpenPair == nil {
		return notApplicable("string keys only")
	}
	s := l.OpenPair(Setup[Pair]{Load: func(_ context.Context, key Pair) (string, error) {
		time.Sleep(10 * ms)
		return key.A + "," + key.B, nil
	}})
	var notes []string
	var mu sync.Mutex
	var done sync.WaitGroup
	for _, k := range []Pair{{"a b", "c"}, {"a", "b c"}, {"a-b", "c"}, {"a", "b-c"}, {"a,b", "c"}, {"a", "b,c"}} {
		done.Go(func() {
			v, err := s.Get(context.Background(), k)
			if v != k.A+","+k.B || err != nil {
				mu.Lock()
				defer mu.Unlock()
				notes = append(notes, fmt.Sprintf("%v was given the value of another key", k))
			}
		})
	}
	done.Wait()
	if len(notes) > 1 {
		return broken(fmt.Sprintf("%d of 6 keys were given another's value", len(notes)))
	}
	return broken(notes...)
}

func nestedLoad(l Library) verdict {
	var s *stage
	var nested error
	s = set(l, Setup[string]{}, func(ctx context.Context, n int) (string, error) {
		if n > 1 {
			return "", errors.New("a second load of the key inside the first")
		}
		_, nested = s.Get(ctx, "k")
		return "value", nil
	})
	switch c := s.ask(context.Background(), "k"); {
	case c.hangs():
		return broken("deadlock")
	case nested == nil:
		return broken("no error")
	}
	return kept()
}
