package quota_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

func update(t *testing.T, l *quota.Limiter, terms quota.Terms, more ...func(*quota.LimiterOptions)) {
	t.Helper()
	o := quota.LimiterOptions{Terms: terms, Key: fleet.Key{Namespace: "limits", Name: "api"}}
	for _, f := range more {
		f(&o)
	}
	if err := l.Update(o); err != nil {
		t.Fatal(err)
	}
}

// hourly returns terms under which the next permit comes in an hour.
func hourly() quota.Terms {
	terms := api()
	terms.Rate = fleet.Rate{Permits: 1, Per: time.Hour, Burst: 10}
	return terms
}

// Permits used under the slow rate still count, but callers do not wait for the hour
// that the engine reported: the engine is called again.
func TestLimiterUpdateEndsAWaitForASlowerRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		defer m.Close(context.Background())
		l := newLimiter(t, m, hourly(), func(o *quota.LimiterOptions) { o.MaxWait = 24 * time.Hour })
		for drain(t, l); l.Stats().Takes < 20; drain(t, l) {
			time.Sleep(200 * time.Millisecond)
		}
		begun, done := time.Now(), make(chan error)
		go func() { _, err := l.Acquire(t.Context()); done <- err }()
		time.Sleep(time.Minute)
		update(t, l, api(), func(o *quota.LimiterOptions) { o.MaxWait = time.Millisecond })
		if err := <-done; err != nil || time.Since(begun) > time.Minute+time.Second {
			t.Errorf("Acquire = %v after %v; want a permit at most one second after the update", err, time.Since(begun))
		}
		time.Sleep(time.Minute)
		if n := drain(t, l); n != 18 {
			t.Errorf("%d admitted at once under the new terms; want 18", n)
		}
	})
}

// A waiting caller keeps its MaxWait and its place in the queue.
func TestLimiterUpdateRevokesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		defer m.Close(context.Background())
		l := newLimiter(t, m, api())
		drain(t, l)
		done := make(chan error)
		for range 3 {
			go func() { _, err := l.Acquire(t.Context()); done <- err }()
		}
		synctest.Wait()
		update(t, l, api(), func(o *quota.LimiterOptions) { o.Queue, o.MaxWait = -1, time.Millisecond })
		for range 3 {
			if err := <-done; err != nil {
				t.Errorf("Acquire = %v; want the permit that it waited for", err)
			}
		}
		drain(t, l)
		if _, err := l.Acquire(t.Context()); !errors.Is(err, limit.ErrLimited) {
			t.Errorf("Acquire = %v; want a refusal, because callers may not wait now", err)
		}
	})
}

func TestLimiterUpdateRefusesWhatItCannotChange(t *testing.T) {
	m := fleet.NewMemory(fleet.MemoryOptions{})
	defer m.Close(context.Background())
	l := newLimiter(t, m, api())
	k, err := quota.NewKeyedLimiter(m, quota.KeyedLimiterOptions{Terms: api(), Namespace: "clients"})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close(context.Background())
	key, other := fleet.Key{Namespace: "limits", Name: "api"}, api()
	other.Name = "other"
	for name, err := range map[string]error{
		"key":              l.Update(quota.LimiterOptions{Terms: api(), Key: fleet.Key{Name: "other"}}),
		"name":             l.Update(quota.LimiterOptions{Terms: other, Key: key}),
		"rate":             l.Update(quota.LimiterOptions{Terms: quota.Terms{Name: "api", OnFailure: quota.FailOpen}, Key: key}),
		"keyed, namespace": k.Update(quota.KeyedLimiterOptions{Terms: api()}),
		"keyed, name":      k.Update(quota.KeyedLimiterOptions{Terms: other, Namespace: "clients"}),
		"keyed, keys":      k.Update(quota.KeyedLimiterOptions{Terms: api(), Namespace: "clients", Keys: -1}),
	} {
		if e := (*quota.OptionError)(nil); !errors.As(err, &e) {
			t.Errorf("%s: Update = %v; want an *OptionError", name, err)
		}
	}
}

// A key that had to wait for an hour may call the engine right after an update. A key
// forgotten because Keys became smaller gains no permits by that.
func TestKeyedLimiterUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fleet.NewMemory(fleet.MemoryOptions{})
		defer m.Close(context.Background())
		k, err := quota.NewKeyedLimiter(m, quota.KeyedLimiterOptions{Terms: hourly(), Namespace: "clients", Keys: 100})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close(context.Background())
		allowed := func(key string) (n int) {
			for ; k.Allow(t.Context(), key) == nil; n++ {
			}
			return n
		}
		for range 20 {
			allowed("a")
			time.Sleep(200 * time.Millisecond)
		}
		if n := allowed("a"); n != 0 {
			t.Fatalf("%d admitted; want none for an hour", n)
		}
		if err := k.Update(quota.KeyedLimiterOptions{Terms: api(), Namespace: "clients", Keys: 1}); err != nil {
			t.Fatal(err)
		}
		if n := allowed("a"); n == 0 || n > 18 {
			t.Errorf("%d admitted after the update; want at most 18 of the burst of 20", n)
		}
		for _, key := range []string{"b", "c", "d"} {
			allowed(key)
		}
		if n := allowed("a"); n != 0 || k.Stats().Keys != 1 {
			t.Errorf("%d admitted, %d keys; want none, and one key", n, k.Stats().Keys)
		}
	})
}

// T11: the fleet keeps to the bound of Update, whatever the rates of two instances
// change to, and in any order.
func TestLimiterUpdateHistories(t *testing.T) {
	for seed := range histories.Seeds(t, 40, 500) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			m := fleet.NewMemory(fleet.MemoryOptions{})
			defer m.Close(context.Background())
			all := []quota.Terms{randomTerms(rng, quota.FailClosed), randomTerms(rng, quota.FailClosed)}
			var instances [2]*quota.Limiter
			for i := range instances {
				l, err := quota.NewLimiter(m, quota.LimiterOptions{Terms: all[0], Key: fleet.Key{Namespace: "limits", Name: "x"}})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close(context.Background())
				instances[i] = l
			}
			var in ledger
			for range 300 {
				l := instances[rng.IntN(2)]
				if rng.IntN(20) == 0 {
					if err := l.Update(quota.LimiterOptions{Terms: all[rng.IntN(2)], Key: fleet.Key{Namespace: "limits", Name: "x"}}); err != nil {
						t.Fatal(err)
					}
				}
				for range rng.IntN(20) {
					if _, err := l.TryAcquire(t.Context()); err == nil {
						in.letIn()
					}
				}
				time.Sleep(time.Duration(rng.Int64N(int64(time.Millisecond) << rng.IntN(9))))
			}
			if over := in.excess(looser(all[0], all[1])); over > 0 {
				t.Errorf("seed %d: the worst window is %d above the bound of %+v, of %d admitted in all", seed, over, all, in.n())
			}
		})
	}
}

// looser returns the rate that bounds a window in which a and b alternate.
func looser(a, b quota.Terms) fleet.Rate {
	rate := a.Rate
	if float64(b.Rate.Permits)/b.Rate.Per.Seconds() > float64(a.Rate.Permits)/a.Rate.Per.Seconds() {
		rate = b.Rate
	}
	lease := max(a.Lease, b.Lease)
	if a.Lease == 0 || b.Lease == 0 {
		lease = max(lease, 200*time.Millisecond) // at most the default
	}
	rate.Burst = max(a.Rate.Burst, b.Rate.Burst) + int(lease.Seconds()*float64(rate.Permits)/rate.Per.Seconds()) + 1
	return rate
}
