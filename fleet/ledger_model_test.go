package fleet

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// A random history of a bucket of a Memory, compared with a limit.RateLimiter: the same
// calls get their units, and the same units go back and are owed.
func TestT15_UnitsAreThoseOfARateLimiter(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 15))
			burst := 1 + rng.IntN(30)
			debt := 1 + rng.IntN(40)
			r := Rate{Permits: 1 + rng.IntN(8), Per: time.Second, Burst: burst}
			m, k, ctx := NewMemory(MemoryOptions{}), Key{Name: "k"}, context.Background()
			l := limit.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: float64(r.Permits), Burst: burst, MaxDebt: debt, Queue: -1}))
			type call struct {
				p    limit.Permit
				mark Mark
				n    int
			}
			var calls []call
			for range 400 {
				time.Sleep(time.Duration(rng.IntN(1000)) * time.Millisecond)
				before := l.Stats()
				if len(calls) == 0 || rng.IntN(2) == 0 {
					n := 1 + rng.IntN(burst)
					s, err := m.Spend(ctx, k, r, n)
					p, want := limit.AcquireN(ctx, l, n)
					if err != nil || s.OK != (want == nil) {
						t.Fatalf("seed %d: Spend(%d) = %+v, %v; want %v", seed, n, s, err, want)
					}
					if s.OK {
						calls = append(calls, call{p, s.Mark, n})
					}
					continue
				}
				i, cost := rng.IntN(len(calls)), rng.IntN(2*burst)
				c := calls[i]
				calls = append(calls[:i], calls[i+1:]...)
				got, err := m.Correct(ctx, k, r, debt, Correction{Mark: c.mark, Units: c.n, Cost: cost})
				c.p.Settle(cost)
				c.p.Release(limit.Success)
				after := l.Stats()
				if err != nil || got.Returned != int(after.Returned-before.Returned) || got.Owed != int(after.Owed-before.Owed) || math.Abs(got.Left-after.Tokens) > 1e-4 {
					t.Fatalf("seed %d: Correct(%d to %d) = %+v, %v; want %d returned, %d owed, %v left", seed, c.n, cost, got, err,
						after.Returned-before.Returned, after.Owed-before.Owed, after.Tokens)
				}
			}
		})
	}
}

// A call during which more corrections were made than a bucket remembers gives back less,
// never more. A bucket remembers a bounded number.
func TestT15_ForgottenCorrectionsAreNotGivenBackTwice(t *testing.T) {
	m, k, ctx := NewMemory(MemoryOptions{}), Key{Name: "k"}, context.Background()
	r := Rate{Permits: 1, Per: 1000 * time.Hour, Burst: 5000}
	first, err := m.Spend(ctx, k, r, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxReturns {
		s, err := m.Spend(ctx, k, r, 2)
		if err != nil || !s.OK {
			t.Fatalf("Spend = %+v, %v", s, err)
		}
		if c, err := m.Correct(ctx, k, r, 0, Correction{Mark: s.Mark, Units: 2, Cost: 1}); err != nil || c.Returned != 1 {
			t.Fatalf("Correct = %+v, %v; want 1 back", c, err)
		}
	}
	// 2 × maxReturns of later calls are forgotten, and count as if they were earlier.
	if c, err := m.Correct(ctx, k, r, 0, Correction{Mark: first.Mark, Units: 1000, Cost: 0}); err != nil || c.Returned != 0 {
		t.Errorf("Correct = %+v, %v; want nothing back", c, err)
	}
}

// Buckets that are full again make room for others.
func TestT15_BucketsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := NewMemory(MemoryOptions{MaxKeys: 10}), context.Background()
		r := Rate{Permits: 1, Per: time.Second, Burst: 5}
		for round := range 3 {
			for i := range 10 {
				if _, err := m.Spend(ctx, Key{Name: fmt.Sprint(round, i)}, r, 5); err != nil {
					t.Fatalf("Spend = %v", err)
				}
			}
			if _, err := m.Spend(ctx, Key{Name: "one more"}, r, 5); err == nil {
				t.Error("Spend on one key too many = nil; want an error")
			}
			time.Sleep(5 * time.Second)
		}
	})
}

// A call that ends after its bucket was forgotten, and another one made for the key, gets
// nothing back: its units have come back with time.
func TestT15_UnitsOfAForgottenBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{MaxKeys: 1})
		defer m.Close(t.Context())
		r, one, two := Rate{Permits: 10, Per: time.Second, Burst: 100}, Key{Name: "one"}, Key{Name: "two"}
		spend := func(k Key, n int) Mark {
			t.Helper()
			s, err := m.Spend(t.Context(), k, r, n)
			if err != nil || !s.OK {
				t.Fatalf("Spend of %s = %+v, %v", k.Name, s, err)
			}
			return s.Mark
		}
		old := spend(one, 10)
		time.Sleep(time.Minute)
		spend(two, 10) // takes the place of one
		time.Sleep(time.Minute)
		spend(one, 20)
		got, err := m.Correct(t.Context(), one, r, 0, Correction{Mark: old, Units: 10, Cost: 0})
		if err != nil || got.Returned != 0 || got.Left != 80 {
			t.Errorf("Correct = %+v, %v; want nothing back, and 80 left", got, err)
		}
	})
}

// With Keep, a bucket remembers that many corrections, and counts the others as if they had
// been of earlier calls.
func TestT15_KeepBoundsTheCorrections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(MemoryOptions{})
		defer m.Close(t.Context())
		r, k := Rate{Permits: 1, Per: time.Hour, Burst: 100}, Key{Name: "k"}
		for keep, want := range map[int]int{1: 0, 8: 10} {
			var marks []Mark
			for range 4 {
				s, err := m.Spend(t.Context(), k, r, 10)
				if err != nil || !s.OK {
					t.Fatalf("Spend = %+v, %v", s, err)
				}
				marks = append(marks, s.Mark)
			}
			var got Corrected
			for _, i := range []int{1, 2, 3, 0} {
				var err error
				if got, err = m.Correct(t.Context(), k, r, 0, Correction{Mark: marks[i], Units: 10, Keep: keep}); err != nil {
					t.Fatal(err)
				}
			}
			if got.Returned != want {
				t.Errorf("with Keep %d, the first call gets %d back; want %d", keep, got.Returned, want)
			}
			time.Sleep(1000 * time.Hour) // all units are back
		}
	})
}
