package quota_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// perClient returns the options of a budget of 100 units for each key, which come back at 1
// per second.
func perClient() quota.KeyedBudgetOptions {
	return quota.KeyedBudgetOptions{
		Name: "api", Namespace: "shop", Rate: fleet.Rate{Permits: 1, Per: time.Second, Burst: 100}, OnFailure: quota.FailClosed,
	}
}

// keyedBudgets returns the KeyedBudgets of n instances on one engine, and their lines to it.
func keyedBudgets(t *testing.T, n int, o quota.KeyedBudgetOptions) ([]*quota.KeyedBudget, []*fleettest.Faults, *names) {
	t.Helper()
	engine := &names{Memory: fleet.NewMemory(fleet.MemoryOptions{})}
	all, lines := onOneEngine(t, engine, n, func(l fleet.Ledger) (*quota.KeyedBudget, error) { return quota.NewKeyedBudget(l, o) })
	return all, lines, engine
}

// names is a Memory that records the keys of budgets, and how many corrections to keep.
type names struct {
	*fleet.Memory
	mu   sync.Mutex
	keys map[fleet.Key]bool // guarded by mu, as is keep
	keep int
}

func (n *names) Abilities() fleet.Abilities { return fleet.Abilities{Ledger: n} }

func (n *names) note(k fleet.Key, keep int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys == nil {
		n.keys = make(map[fleet.Key]bool)
	}
	n.keys[k], n.keep = true, max(n.keep, keep)
}

func (n *names) Spend(ctx context.Context, k fleet.Key, r fleet.Rate, units int) (fleet.Spent, error) {
	n.note(k, 0)
	return n.Memory.Spend(ctx, k, r, units)
}

func (n *names) Correct(ctx context.Context, k fleet.Key, r fleet.Rate, debt int, c fleet.Correction) (fleet.Corrected, error) {
	n.note(k, c.Remember())
	return n.Memory.Correct(ctx, k, r, debt, c)
}

func takes(t *testing.T, b *quota.KeyedBudget, key string, n int) limit.Permit {
	t.Helper()
	p, err := b.AcquireN(t.Context(), key, n)
	if err != nil {
		t.Fatalf("AcquireN(%q, %d) = %v; want nil", key, n, err)
	}
	return p
}

func lacks(t *testing.T, b *quota.KeyedBudget, key string, n int, retry time.Duration) {
	t.Helper()
	_, err := b.AcquireN(t.Context(), key, n)
	refused(t, err, limit.RateExceeded, retry)
}

// Each key has one budget for all instances, which no other key uses up: what an estimate
// had in excess goes back, what it lacked is owed up to MaxDebt, and a refusal has the time
// until there are enough units.
func TestT15_EachKeyHasOneBudgetForTheFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := perClient()
		o.MaxDebt = 30
		all, _, engine := keyedBudgets(t, 3, o)
		a, b, c := takes(t, all[0], "ada", 60), takes(t, all[1], "ada", 30), takes(t, all[2], "ada", 10)
		lacks(t, all[1], "ada", 20, 20*time.Second)
		takes(t, all[1], "bob", 100)
		a.Settle(70)
		a.Settle(20)
		a.Release(limit.Success)
		synctest.Wait()
		d := takes(t, all[1], "ada", 40)
		b.Settle(80)
		b.Release(limit.Success)
		synctest.Wait()
		lacks(t, all[2], "ada", 1, 31*time.Second)
		lacks(t, all[2], "bob", 1, time.Second)
		c.Release(limit.Unused)
		d.Release(limit.Dropped) // costs what was estimated
		c.Settle(100)            // too late
		synctest.Wait()
		lacks(t, all[0], "ada", 1, 21*time.Second)
		_, err := all[2].AcquireN(t.Context(), "ada", 101)
		var many *limit.Error
		if !errors.As(err, &many) || many.Reason != limit.TooMany || many.Units != 101 || many.Most != 100 {
			t.Errorf("AcquireN(101) = %v; want TooMany", err)
		}
		if s := all[1].Stats(); s.Admitted != 3 || s.Refused[limit.RateExceeded] != 1 || s.Owed != 30 || s.Forgiven != 20 || all[0].Stats().Returned != 40 {
			t.Errorf("Stats = %+v and %+v; want 40 returned, 30 owed and 20 forgiven", all[0].Stats(), s)
		}
		if len(engine.keys) != 2 || engine.keep != 128 {
			t.Errorf("the engine has the keys %v, and remembers %d corrections; want 2 keys, and 128", engine.keys, engine.keep)
		}
	})
}

// The engine gets a digest of a key, of the same length for all, which differs between
// namespaces.
func TestT15_TheEngineGetsDigestsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _, engine := keyedBudgets(t, 2, perClient())
		o := perClient()
		o.Namespace = "shops" // with the first byte of the key, it would be the same text
		other, err := quota.NewKeyedBudget(engine, o)
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{"", "ada", "s", "Authorization: Bearer sk-secret", "192.0.2.1", strings.Repeat("x", 5000), strings.Repeat("x", 5000) + "y"}
		for _, key := range keys {
			takes(t, all[0], key, 60)
			lacks(t, all[1], key, 60, 20*time.Second)
			takes(t, other, key, 60)
		}
		wantDigests(t, maps.Keys(engine.keys), keys, 2)
	})
}

// A caller that leaves while the engine is slow gives its units back.
func TestT15_AKeyPaysNothingForACallerThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, lines, _ := keyedBudgets(t, 2, perClient())
		lines[0].Before(func(op string) {
			if op == "spend" {
				time.Sleep(100 * time.Millisecond)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := all[0].AcquireN(ctx, "ada", 80); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AcquireN = %v; want the deadline", err)
		}
		if _, err := all[0].AcquireN(ctx, "ada", 80); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("AcquireN = %v; want the deadline", err)
		}
		time.Sleep(time.Second)
		takes(t, all[1], "ada", 100)
	})
}

// Units that a caller has are not given back behind its back.
func TestT15_UnitsOfACallerAreItsOwn(t *testing.T) {
	o := perClient()
	o.Rate = fleet.Rate{Permits: 1, Per: 24 * time.Hour, Burst: 5000}
	all, _, _ := keyedBudgets(t, 1, o)
	for range 5000 {
		takes(t, all[0], "ada", 1)
	}
	if err := all[0].Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if s := all[0].Stats(); s.Returned != 0 || s.Admitted != 5000 {
		t.Errorf("Stats = %+v; want 5000 admitted, and nothing returned", s)
	}
}

// OnFailure decides about keys without the engine.
func TestT15_KeysWithoutTheEngine(t *testing.T) {
	for _, mode := range []quota.FailureMode{quota.FailOpen, quota.FailClosed, quota.FailLocalShare} {
		synctest.Test(t, func(t *testing.T) {
			o := perClient()
			o.OnFailure, o.Instances, o.Rate.Permits, o.MaxDebt = mode, 2, 2, 40
			all, lines, _ := keyedBudgets(t, 2, o)
			b := all[0]
			owes, back, others := takes(t, b, "ada", 10), takes(t, b, "ada", 10), takes(t, b, "bob", 10)
			lines[0].Cut()
			asked := lines[0].Commands()
			ask := func(key string, n int) (in int, p limit.Permit, last error) {
				for range n {
					q, err := b.AcquireN(t.Context(), key, 10)
					if err == nil {
						in, p = in+1, q
					} else {
						last = err
					}
				}
				return in, p, last
			}
			in, _, err := ask("ada", 20)
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
				if in, _, _ := ask("made up", 2); in != 0 {
					t.Errorf("%v: %d admitted for another key; want none at once", mode, in)
				}
				time.Sleep(20 * time.Second) // 20 units of the share
				in, p, _ := ask("ada", 3)
				if in != 2 {
					t.Errorf("%v: %d admitted after 20 s; want the 2 of an instance's share", mode, in)
				}
				p.Settle(4)
				p.Release(limit.Success) // 6 go back
				if _, _, err := ask("ada", 1); err == nil {
					t.Errorf("%v: admitted with 6 units", mode)
				} else {
					refused(t, err, limit.RateExceeded, 4*time.Second)
				}
				time.Sleep(4 * time.Second)
				_, p, _ = ask("ada", 1)
				p.Settle(100)
				p.Release(limit.Success) // 20 are owed, an instance's share of MaxDebt
				_, _, err = ask("ada", 1)
				refused(t, err, limit.RateExceeded, 30*time.Second)
			}
			if n := lines[0].Commands() - asked; n > 60 {
				t.Errorf("%v: %d commands during the outage; want few", mode, n)
			}
			owes.Settle(50)
			owes.Release(limit.Success)
			back.Release(limit.Unused)
			others.Settle(35)
			others.Release(limit.Success)
			synctest.Wait()
			lines[0].Mend()
			time.Sleep(2 * time.Second)
			takes(t, b, "carl", 1)
			synctest.Wait()
			// Also of keys that do not come back to this instance.
			if s := b.Stats(); s.Outage || s.Outages != 1 || s.Owed != 65 {
				t.Errorf("%v: Stats = %+v; want the outage to be over, and the 40 and 25 units of calls that ended in it owed", mode, s)
			}
			takes(t, b, "carl", 99)
			lacks(t, b, "carl", 2, time.Second)
		})
	}
}

// During an outage an instance counts a bounded number of keys. A forgotten one begins
// without units again, so nothing is gained with made-up keys.
func TestT15_KeysAreBoundedDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := perClient()
		o.OnFailure, o.Instances, o.Keys = quota.FailLocalShare, 1, 10
		all, lines, _ := keyedBudgets(t, 1, o)
		lines[0].Cut()
		try := func(key string) error {
			_, err := all[0].AcquireN(t.Context(), key, 5)
			return err
		}
		_ = try("ada")
		time.Sleep(5 * time.Second)
		for i := range 9 {
			_ = try(fmt.Sprint("made up ", i))
		}
		if err := try("ada"); err != nil { // and is now the last to be forgotten
			t.Errorf("AcquireN = %v; want nil, because there is a place for 10 keys", err)
		}
		time.Sleep(5 * time.Second)
		for i := range 10 {
			_ = try(fmt.Sprint("more made up ", i))
		}
		if err := try("ada"); err == nil {
			t.Error("AcquireN = nil for a key that was forgotten; want that it begins without units")
		}
	})
}

func TestT15_UpdateAndCloseOfAKeyedBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := perClient()
		all, _, engine := keyedBudgets(t, 1, o)
		p := takes(t, all[0], "ada", 100)
		o.Rate.Burst = 150
		if err := all[0].Update(o); err != nil {
			t.Fatal(err)
		}
		lacks(t, all[0], "ada", 60, 10*time.Second)
		for field, bad := range map[string]func(*quota.KeyedBudgetOptions){
			"Name":         func(o *quota.KeyedBudgetOptions) { o.Name = "other" },
			"Namespace":    func(o *quota.KeyedBudgetOptions) { o.Namespace = "other" },
			"Rate.Permits": func(o *quota.KeyedBudgetOptions) { o.Rate.Permits = 0 },
			"Keys":         func(o *quota.KeyedBudgetOptions) { o.Keys = -1 },
		} {
			o := o
			bad(&o)
			var e *quota.OptionError
			if err := all[0].Update(o); !errors.As(err, &e) || e.Field != "KeyedBudgetOptions."+field {
				t.Errorf("Update = %v; want a fault in %s", err, field)
			}
		}
		if _, err := quota.NewKeyedBudget(nil, o); err == nil {
			t.Error("NewKeyedBudget without a Ledger = nil; want an error")
		}
		p.Release(limit.Unused) // Close waits for it
		if err := all[0].Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		if _, err := all[0].AcquireN(t.Context(), "ada", 1); !errors.Is(err, quota.ErrLimiterClosed) {
			t.Errorf("AcquireN = %v; want ErrLimiterClosed", err)
		}
		again, err := quota.NewKeyedBudget(engine, o)
		if err != nil {
			t.Fatal(err)
		}
		takes(t, again, "ada", 150)
	})
}
