package quota_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// tokens returns the options of a budget of 100 units, which come back at 1 per second.
func tokens() quota.BudgetOptions {
	return quota.BudgetOptions{
		Name: "api", Key: fleet.Key{Namespace: "shop", Name: "tokens"},
		Rate: fleet.Rate{Permits: 1, Per: time.Second, Burst: 100}, OnFailure: quota.FailClosed, MaxWait: time.Minute,
	}
}

// budgets returns the Budgets of n instances on one engine, and their lines to it.
func budgets(t *testing.T, n int, o quota.BudgetOptions) ([]*quota.Budget, []*fleettest.Faults) {
	t.Helper()
	return onOneEngine(t, fleet.NewMemory(fleet.MemoryOptions{}), n, func(l fleet.Ledger) (*quota.Budget, error) { return quota.NewBudget(l, o) })
}

// onOneEngine makes n budgets, each with its line to the engine.
func onOneEngine[B interface{ Close(context.Context) error }](t *testing.T, engine fleet.Tier, n int, open func(fleet.Ledger) (B, error)) (all []B, lines []*fleettest.Faults) {
	t.Helper()
	for range n {
		line := fleettest.NewFaults(engine)
		b, err := open(line)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := b.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Errorf("Close = %v", err)
			}
		})
		all, lines = append(all, b), append(lines, line)
	}
	return all, lines
}

func spend(t *testing.T, b *quota.Budget, n int) limit.Permit {
	t.Helper()
	p, err := b.AcquireN(t.Context(), n)
	if err != nil {
		t.Fatalf("AcquireN(%d) = %v; want nil", n, err)
	}
	return p
}

// atOnce makes a caller that does not wait.
func atOnce(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	t.Cleanup(cancel)
	return ctx
}

// All instances spend one budget. Units that an estimate had in excess go back, those that
// it lacked are owed up to MaxDebt, and a refusal has the time until there are enough.
func TestT15_OneBudgetForTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := tokens()
		o.MaxDebt = 30
		all, _ := budgets(t, 3, o)
		a, b, c := spend(t, all[0], 60), spend(t, all[1], 30), spend(t, all[2], 10)
		_, err := all[1].AcquireN(limit.ContextWithPriority(t.Context(), limit.Background), 20)
		refused(t, err, limit.NoSpare, 20*time.Second)
		a.Settle(70) // more than it should be; then better known
		a.Settle(20)
		a.Release(limit.Success)
		synctest.Wait()
		d := spend(t, all[1], 40)
		b.Settle(80)
		b.Release(limit.Success)
		synctest.Wait()
		if s := all[1].Stats(); s.Left != -30 || s.Owed != 30 || s.Forgiven != 20 || all[0].Stats().Returned != 40 {
			t.Errorf("Stats = %+v and %+v; want 40 returned, 30 owed and 20 forgiven", all[0].Stats(), s)
		}
		c.Release(limit.Unused)
		d.Release(limit.Dropped) // costs what was estimated
		c.Settle(100)            // too late
		synctest.Wait()
		_, err = all[2].AcquireN(limit.ContextWithPriority(t.Context(), limit.Background), 1)
		refused(t, err, limit.NoSpare, 21*time.Second)
		_, err = all[2].AcquireN(t.Context(), 101)
		var many *limit.Error
		if !errors.As(err, &many) || many.Reason != limit.TooMany || many.Units != 101 || many.Most != 100 {
			t.Errorf("AcquireN(101) = %v; want TooMany", err)
		}
	})
}

// Callers wait in the order in which they came, and those that cannot have their units in
// time are refused at once. A caller that leaves takes nothing.
func TestT15_CallersWaitForUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := tokens()
		o.Queue = 3
		all, _ := budgets(t, 2, o)
		b := all[0]
		spend(t, b, 100)
		began := time.Now()
		var mu sync.Mutex
		var order []int
		var at []time.Duration
		wait := func(ctx context.Context, n int) {
			if _, err := b.AcquireN(ctx, n); err == nil {
				mu.Lock()
				defer mu.Unlock()
				order, at = append(order, n), append(at, time.Since(began))
			}
		}
		leaving, leave := context.WithCancel(t.Context())
		for _, n := range []int{30, 5, 10} {
			ctx := t.Context()
			if n == 5 {
				ctx = leaving
			}
			go wait(ctx, n)
			synctest.Wait()
		}
		if s := b.Stats(); s.Queued != 3 {
			t.Errorf("Stats = %+v; want 3 queued", s)
		}
		_, err := b.AcquireN(t.Context(), 1)
		refused(t, err, limit.RateExceeded, 46*time.Second)
		leave()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		_, err = b.AcquireN(short, 1)
		refused(t, err, limit.WaitTooLong, 41*time.Second)
		_, err = b.AcquireN(t.Context(), 50)
		refused(t, err, limit.RateExceeded, 90*time.Second)
		time.Sleep(50 * time.Second)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 2 || order[0] != 30 || order[1] != 10 || at[0] != 30*time.Second || at[1] != 40*time.Second {
			t.Errorf("admitted %v after %v; want 30 after 30s, and 10 after 40s", order, at)
		}
		if s := b.Stats(); s.Admitted != 3 || s.Waited != 2 || s.Queued != 0 {
			t.Errorf("Stats = %+v; want 3 admitted, 2 of them after a wait", s)
		}
	})
}

// A caller that leaves while the engine is slow gives its units back.
func TestT15_ACallerThatLeavesTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, lines := budgets(t, 2, tokens())
		lines[0].Before(func(op string) {
			if op == "spend" {
				time.Sleep(100 * time.Millisecond)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := all[0].AcquireN(ctx, 80); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AcquireN = %v; want the deadline", err)
		}
		time.Sleep(time.Second)
		spend(t, all[1], 100)
	})
}

// What happens without the engine is configured.
func TestT15_WithoutTheEngine(t *testing.T) {
	for _, mode := range []quota.FailureMode{quota.FailOpen, quota.FailClosed, quota.FailLocalShare} {
		synctest.Test(t, func(t *testing.T) {
			o := tokens()
			o.OnFailure, o.Instances, o.Rate.Permits = mode, 2, 2
			all, lines := budgets(t, 2, o)
			owes, back := spend(t, all[0], 10), spend(t, all[0], 10)
			lines[0].Cut()
			in, asked := 0, lines[0].Commands()
			var err error
			for range 20 {
				p, e := all[0].AcquireN(t.Context(), 10)
				p.Release(limit.Success)
				if e == nil {
					in++
				} else {
					err = e
				}
			}
			var out *quota.OutageError
			switch mode {
			case quota.FailOpen:
				if in != 20 {
					t.Errorf("%v: %d of 20 admitted, %v; want all", mode, in, err)
				}
			case quota.FailClosed:
				if in != 0 || !errors.As(err, &out) || !errors.Is(err, fleet.ErrUnavailable) || out.Refusal.RetryAfter <= 0 || !strings.Contains(err.Error(), "api") {
					t.Errorf("%v: %d admitted, %v; want none, and an OutageError", mode, in, err)
				}
			default:
				refused(t, err, limit.RateExceeded, 10*time.Second)
				if in != 0 {
					t.Errorf("%v: %d admitted at once; want none", mode, in)
				}
				time.Sleep(20 * time.Second)
				for range 3 {
					if _, e := all[0].AcquireN(t.Context(), 10); e == nil {
						in++
					}
				}
				if in != 2 {
					t.Errorf("%v: %d admitted after 20 s; want the 2 of an instance's share", mode, in)
				}
			}
			if n := lines[0].Commands() - asked; n > 25 {
				t.Errorf("%v: %d commands during the outage; want few", mode, n)
			}
			owes.Settle(50)
			owes.Release(limit.Success)
			back.Release(limit.Unused)
			synctest.Wait()
			lines[0].Mend()
			time.Sleep(2 * time.Second)
			if _, err := all[0].AcquireN(t.Context(), 1); err != nil {
				t.Errorf("%v: AcquireN = %v after the outage; want nil", mode, err)
			}
			synctest.Wait()
			if s := all[0].Stats(); s.Outage || s.Outages != 1 || s.Owed != 40 {
				t.Errorf("%v: Stats = %+v; want the outage to be over, and the 40 units of a call that ended in it owed", mode, s)
			}
		})
	}
}

// A random history of instances with outages keeps to the bound in each window.
func TestT15_TheBoundHoldsInEachWindow(t *testing.T) {
	for seed := range histories.Seeds(t, 5, 20) {
		synctest.Test(t, func(t *testing.T) { budgetHistory(t, seed) })
	}
}

func budgetHistory(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 15))
	o := tokens()
	o.Rate, o.MaxDebt, o.MaxWait = fleet.Rate{Permits: 5, Per: time.Second, Burst: 40}, 20, 3*time.Second
	all, lines := budgets(t, 3, o)
	type point struct {
		at    time.Duration
		taken int
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	began, admitted := time.Now(), 0
	var history []point
	record := func() {
		taken := admitted
		for _, b := range all {
			s := b.Stats()
			taken += int(s.Owed) - int(s.Returned)
		}
		history = append(history, point{time.Since(began), taken})
	}
	for i := range all {
		for range 6 {
			r := rand.New(rand.NewPCG(seed, rng.Uint64()))
			wg.Go(func() {
				for range 25 {
					time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
					n := 1 + r.IntN(20)
					p, err := all[i].AcquireN(t.Context(), n)
					if err != nil {
						continue
					}
					mu.Lock()
					admitted += n
					record()
					mu.Unlock()
					time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
					p.Settle(r.IntN(30))
					p.Release(limit.Success)
					time.Sleep(time.Nanosecond)
					mu.Lock()
					record()
					mu.Unlock()
				}
			})
		}
	}
	wg.Go(func() {
		for range 10 {
			time.Sleep(time.Duration(rng.IntN(4000)) * time.Millisecond)
			line := lines[rng.IntN(len(lines))]
			line.Cut()
			time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			line.Mend()
		}
	})
	wg.Wait()
	if len(history) < 30 {
		t.Errorf("seed %d: only %d points", seed, len(history))
	}
	for i, from := range history {
		for _, to := range history[i:] {
			// A correction shows in Stats shortly after it was made.
			most := (to.at-from.at).Seconds()*5 + 40 + 20 + 1
			if n := to.taken - from.taken; float64(n) > most {
				t.Fatalf("seed %d: %d units from %v to %v; want at most %v", seed, n, from.at, to.at, most)
			}
		}
	}
	if last := history[len(history)-1]; float64(last.taken) < last.at.Seconds()*5/3 {
		t.Errorf("seed %d: %d units in %v; want that the budget is used", seed, last.taken, last.at)
	}
}

// Update keeps what is spent.
func TestT15_UpdateOfABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := tokens()
		all, _ := budgets(t, 1, o)
		spend(t, all[0], 100)
		o.Rate.Burst = 150
		if err := all[0].Update(o); err != nil {
			t.Fatal(err)
		}
		spend(t, all[0], 50)
		if _, err := all[0].AcquireN(atOnce(t), 1); err == nil {
			t.Error("AcquireN = nil; want a refusal, because the units stay spent")
		}
		for _, bad := range []func(*quota.BudgetOptions){
			func(o *quota.BudgetOptions) { o.Name = "other" }, func(o *quota.BudgetOptions) { o.Key.Name = "other" },
			func(o *quota.BudgetOptions) { o.Rate.Permits = 0 },
		} {
			o := o
			bad(&o)
			if err := all[0].Update(o); !errors.As(err, new(*quota.OptionError)) {
				t.Errorf("Update = %v; want an OptionError", err)
			}
		}
	})
}

func TestT15_CloseOfABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := budgets(t, 1, tokens())
		p := spend(t, all[0], 100)
		done := make(chan error)
		go func() {
			_, err := all[0].AcquireN(t.Context(), 10)
			done <- err
		}()
		synctest.Wait()
		if err := all[0].Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if err := <-done; !errors.Is(err, quota.ErrLimiterClosed) {
			t.Errorf("a waiting AcquireN = %v; want ErrLimiterClosed", err)
		}
		if _, err := all[0].AcquireN(t.Context(), 1); !errors.Is(err, quota.ErrLimiterClosed) {
			t.Errorf("AcquireN = %v; want ErrLimiterClosed", err)
		}
		p.Release(limit.Success)
	})
}

func TestT15_FaultsOfABudget(t *testing.T) {
	for field, change := range map[string]func(*quota.BudgetOptions){
		"Rate.Permits": func(o *quota.BudgetOptions) { o.Rate.Permits = 0 },
		"Rate.Per":     func(o *quota.BudgetOptions) { o.Rate.Per = 0 },
		"Rate.Burst":   func(o *quota.BudgetOptions) { o.Rate.Burst = -1 },
		"MaxDebt":      func(o *quota.BudgetOptions) { o.MaxDebt = 1<<30 + 1 },
		"OnFailure":    func(o *quota.BudgetOptions) { o.OnFailure = 0 },
		"Instances":    func(o *quota.BudgetOptions) { o.OnFailure = quota.FailLocalShare },
		"Retry":        func(o *quota.BudgetOptions) { o.Retry = 1 },
		"Timeout":      func(o *quota.BudgetOptions) { o.Timeout = -1 },
	} {
		o := tokens()
		change(&o)
		_, err := quota.NewBudget(fleet.NewMemory(fleet.MemoryOptions{}), o)
		if err == nil || !strings.Contains(err.Error(), "BudgetOptions."+field) {
			t.Errorf("NewBudget = %v; want a fault in %s", err, field)
		}
	}
	if _, err := quota.NewBudget(nil, tokens()); err == nil {
		t.Error("NewBudget without a Ledger = nil; want an error")
	}
}
