package fleet

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
)

// A random history of a bucket of a Memory, compared with a limit.RateLimiter: the same
// calls get their units, and the same units go back and are owed.
func TestT15_UnitsAreThoseOfARateLimiter(t *testing.T) {
	for seed := range uint64(100) {
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
	if n := len(m.pots[k].latest); n != maxReturns {
		t.Errorf("%d corrections are remembered; want %d", n, maxReturns)
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
