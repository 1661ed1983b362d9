package quota_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

func newKeyed(t *testing.T, m fleet.Meter, o quota.KeyedLimiterOptions) *quota.KeyedLimiter {
	t.Helper()
	k, err := quota.NewKeyedLimiter(m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close(context.Background()) })
	return k
}

// allowed returns how many of n calls of Allow are admitted.
func allowed(t *testing.T, k *quota.KeyedLimiter, key string, n int) (in int) {
	t.Helper()
	for range n {
		err := k.Allow(t.Context(), key)
		if err == nil {
			in++
		} else if !errors.Is(err, limit.ErrLimited) {
			t.Fatalf("Allow(%.20q) = %v; want nil or a refusal", key, err)
		}
	}
	return in
}

func TestKeyedCountsEachKeyForAllInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		terms := api()
		terms.Rate.Burst = 6 // a lease takes 2 of it
		a := newKeyed(t, m, quota.KeyedLimiterOptions{Terms: terms, Namespace: "clients"})
		b := newKeyed(t, m, quota.KeyedLimiterOptions{Terms: terms, Namespace: "clients"})
		other := newKeyed(t, m, quota.KeyedLimiterOptions{Terms: terms, Namespace: "others"})
		long := strings.Repeat("x", 5000)
		for _, key := range []string{"", "192.0.2.1", "192.0.2.2", long, long + "y"} {
			if n := allowed(t, a, key, 3) + allowed(t, b, key, 3); n != 4 {
				t.Errorf("%d of 6 are admitted for %.20q; want 4", n, key)
			}
			if n := allowed(t, other, key, 6); n != 4 {
				t.Errorf("%d of 6 are admitted for %.20q of another namespace; want 4", n, key)
			}
		}
		var e *limit.Error
		if err := a.Allow(t.Context(), "192.0.2.1"); !errors.As(err, &e) || e.Reason != limit.RateExceeded || e.Limiter != "api" {
			t.Errorf("Allow = %v; want a refusal of api", err)
		}
		if s := a.Stats(); s.Keys != 5 || s.Admitted+s.Refused.Total() != 16 {
			t.Errorf("Stats = %+v; want 5 keys and 16 callers", s)
		}
	})
}

// The engine gets a digest of a key, of the same length for all, which differs between
// namespaces.
func TestT11_TheEngineGetsDigestsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		keys := []string{"", "ada", "s", "Authorization: Bearer sk-secret", "192.0.2.1", strings.Repeat("x", 5000), strings.Repeat("x", 5000) + "y"}
		for _, namespace := range []string{"shop", "shops"} { // with "s", the first would be the second's text for ""
			a := newKeyed(t, m, quota.KeyedLimiterOptions{Terms: api(), Namespace: namespace})
			b := newKeyed(t, m, quota.KeyedLimiterOptions{Terms: api(), Namespace: namespace})
			for _, key := range keys {
				allowed(t, a, key, 1)
				allowed(t, b, key, 1)
			}
		}
		wantDigests(t, maps.Keys(m.debt), keys, 2)
	})
}

// wantDigests checks that the engine has a digest of each key in each of n namespaces, and
// nothing of the keys.
func wantDigests(t *testing.T, got iter.Seq[fleet.Key], keys []string, n int) {
	t.Helper()
	seen := make(map[string]bool)
	for k := range got {
		seen[k.Name] = true
		if len(k.Name) != 43 {
			t.Errorf("the engine gets %q; want a digest of 43 bytes", k.Name)
		}
		for _, key := range keys {
			if len(key) > 1 && strings.Contains(k.Name, key) {
				t.Errorf("the engine gets %q, which contains %q", k.Name, key)
			}
		}
	}
	if len(seen) != n*len(keys) {
		t.Errorf("%d names for %d keys in %d namespaces; want %d", len(seen), len(keys), n, n*len(keys))
	}
}

// A flood of made-up keys takes a bounded amount of memory, and lets no key exceed
// its rate.
func TestKeyedForgetsKeysButNoPermits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(0)
		terms := api()
		k := newKeyed(t, m, quota.KeyedLimiterOptions{Terms: terms, Keys: 10})
		var regular ledger
		for i := range 2000 {
			if k.Allow(t.Context(), "regular") == nil {
				regular.letIn()
			}
			if i%20 < 15 { // otherwise it is remembered
				for range 15 {
					_ = k.Allow(t.Context(), fmt.Sprint(i, rand.Int()))
				}
			}
			time.Sleep(time.Millisecond)
		}
		if s := k.Stats(); s.Keys != 10 {
			t.Errorf("%d keys are remembered; want 10", s.Keys)
		}
		if over := regular.excess(terms.Rate); over > 0 || regular.n() < 30 {
			t.Errorf("%d admitted for a forgotten key, %d above the bound", regular.n(), over)
		}
		time.Sleep(time.Hour)
		for i := range 5 { // each makes the limiter forget two idle keys
			allowed(t, k, fmt.Sprint("new ", i), 1)
		}
		if s := k.Stats(); s.Keys != 5 {
			t.Errorf("%d keys are remembered after an hour; want the 5 new ones", s.Keys)
		}
	})
}

// An outage concerns the engine, so the keys do not discover it one by one.
func TestKeyedOutageIsOfAllKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModelMeter(1)
		m.set(weather{hung: true})
		terms := api()
		terms.OnFailure, terms.Instances = quota.FailLocalShare, 2
		k := newKeyed(t, m, quota.KeyedLimiterOptions{Terms: terms})
		began := time.Now()
		in := 0
		for i := range 1000 {
			in += allowed(t, k, fmt.Sprint(i%100), 1)
		}
		if d := time.Since(began); d != 3*75*time.Millisecond || in != 100 {
			t.Errorf("1000 callers of 100 keys took %v, %d admitted; want three deadlines, and one per key", d, in)
		}
		time.Sleep(time.Second)
		began = time.Now()
		before := m.asked()
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { _ = k.Allow(t.Context(), fmt.Sprint(i)) })
		}
		wg.Wait()
		if n := m.asked() - before; n != 1 || time.Since(began) != 75*time.Millisecond {
			t.Errorf("after Retry 100 keys made %d requests, in %v; want one test of the engine", n, time.Since(began))
		}
	})
}

func TestKeyedHistories(t *testing.T) {
	for seed := range histories.Seeds(t, 10, 60) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			m := newModelMeter(seed + 1)
			o := quota.KeyedLimiterOptions{Terms: randomTerms(rng, quota.FailClosed), Keys: 1 + rng.IntN(4)}
			instances := []*quota.KeyedLimiter{newKeyed(t, m, o), newKeyed(t, m, o), newKeyed(t, m, o)}
			ledgers := make([]ledger, 5)
			var wg sync.WaitGroup
			for range 300 {
				k, i := instances[rng.IntN(3)], rng.IntN(5)
				if rng.IntN(40) == 0 {
					m.set(weather{lost: rng.IntN(20), lostAnswer: rng.IntN(20), twice: rng.IntN(20), slow: rng.IntN(50)})
				}
				for range 1 + rng.IntN(4) {
					wg.Go(func() {
						if k.Allow(context.Background(), fmt.Sprint(i)) == nil {
							ledgers[i].letIn()
						}
					})
				}
				time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
			}
			wg.Wait()
			for i := range ledgers {
				if over := ledgers[i].excess(o.Rate); over > 0 {
					t.Errorf("seed %d: key %d was admitted %d times, %d above the bound of %+v", seed, i, ledgers[i].n(), over, o.Rate)
				}
			}
		})
	}
}
