package quota_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/limit"
)

// T15: during an outage the engine is called until it has failed three times, and then once
// per Retry.
func TestT15_TheEngineIsNotCalledDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, lines := budgets(t, 1, tokens())
		lines[0].Cut()
		calls := func(n int, step time.Duration) uint64 {
			before := lines[0].Commands()
			for range n {
				_, _ = all[0].AcquireN(t.Context(), 1)
				time.Sleep(step)
			}
			return lines[0].Commands() - before
		}
		if n := calls(20, 0); n != 3 {
			t.Errorf("20 callers at once made %d calls; want 3", n)
		}
		if n := calls(100, 100*time.Millisecond); n < 9 || n > 10 {
			t.Errorf("100 callers in 10 s made %d calls; want one per second", n)
		}
	})
}

// T15: what calls lack during an outage is remembered up to MaxDebt for each key, and for
// Keys of them. The rest is forgiven.
func TestT15_DebtsOfAnOutageAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := perClient()
		o.MaxDebt, o.Keys = 30, 2
		all, lines, _ := keyedBudgets(t, 1, o)
		var calls []limit.Permit
		for _, key := range []string{"ada", "ada", "bob", "carl"} {
			calls = append(calls, takes(t, all[0], key, 1))
		}
		lines[0].Cut()
		for _, p := range calls {
			p.Settle(21) // lacks 20
			p.Release(limit.Success)
			synctest.Wait()
		}
		if s := all[0].Stats(); s.Forgiven != 10+20 {
			t.Errorf("Stats = %+v; want 10 of ada's 40 and carl's 20 forgiven", s)
		}
		lines[0].Mend()
		time.Sleep(time.Minute) // the buckets are full again
		takes(t, all[0], "dan", 1)
		synctest.Wait()
		if s := all[0].Stats(); s.Owed != 30+20 || s.Forgiven != 30 {
			t.Errorf("Stats = %+v; want ada's 30 and bob's 20 owed", s)
		}
		lacks(t, all[0], "ada", 71, time.Second)
		takes(t, all[0], "carl", 100)
	})
}

// T15: Close ends a wait for units at once.
func TestT15_CloseEndsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, _ := budgets(t, 1, tokens())
		spend(t, all[0], 100)
		began := time.Now()
		errs := make(chan error)
		for range 2 { // the first waits for its units, the other for its turn
			go func() {
				_, err := all[0].AcquireN(t.Context(), 20)
				errs <- err
			}()
		}
		time.Sleep(time.Second)
		if err := all[0].Close(t.Context()); err != nil {
			t.Errorf("Close = %v", err)
		}
		for range 2 {
			if err := <-errs; !errors.Is(err, quota.ErrLimiterClosed) || time.Since(began) != time.Second {
				t.Errorf("AcquireN = %v after %v; want ErrLimiterClosed after 1s", err, time.Since(began))
			}
		}
	})
}

// cutOff returns a KeyedBudget whose engine does not respond: a share of four instances, of
// which each has 25 of 100 units, 1 in 4 s, and 25 of debt.
func cutOff(t *testing.T, keys int) *quota.KeyedBudget {
	o := perClient()
	o.OnFailure, o.Instances, o.Keys = quota.FailLocalShare, 4, keys
	all, lines, _ := keyedBudgets(t, 1, o)
	lines[0].Cut()
	return all[0]
}

// T15: the share of an instance has a part of the burst. A call that needs more than all of
// it owes the rest.
func TestT15_AShareHasAPartOfTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := cutOff(t, 0)
		lacks(t, b, "ada", 1, 4*time.Second)
		lacks(t, b, "bob", 1, 4*time.Second)
		time.Sleep(time.Hour)
		takes(t, b, "ada", 10)
		takes(t, b, "ada", 15)
		lacks(t, b, "ada", 1, 4*time.Second)
		takes(t, b, "bob", 40).Release(limit.Success)
		lacks(t, b, "bob", 1, 16*4*time.Second) // it owes 15
	})
}

// T15: during an outage the least recently used key is forgotten, not another one.
func TestT15_TheOldestKeyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := cutOff(t, 2)
		lacks(t, b, "ada", 5, 20*time.Second)
		time.Sleep(20 * time.Second)
		lacks(t, b, "bob", 5, 20*time.Second)
		takes(t, b, "ada", 1)
		lacks(t, b, "carl", 5, 20*time.Second) // takes the place of bob
		takes(t, b, "ada", 4)
	})
}

// T15: each outage begins without units, even if no caller came between two of them.
func TestT15_EachOutageBeginsWithoutUnits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := perClient()
		o.OnFailure, o.Instances = quota.FailLocalShare, 4
		all, lines, _ := keyedBudgets(t, 1, o)
		open := takes(t, all[0], "bob", 10)
		lines[0].Cut()
		lacks(t, all[0], "ada", 5, 20*time.Second)
		time.Sleep(20 * time.Second)
		lines[0].Mend()
		open.Settle(20)
		open.Release(limit.Success) // the engine responds to the correction
		synctest.Wait()
		if s := all[0].Stats(); s.Outage || s.Outages != 1 {
			t.Fatalf("Stats = %+v; want the outage to be over", s)
		}
		lines[0].Cut()
		lacks(t, all[0], "ada", 5, 20*time.Second)
	})
}
