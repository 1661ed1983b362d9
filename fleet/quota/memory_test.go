package quota_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/histories"
)

// The same bound holds with a Memory as the engine.
func TestLimiterOnMemoryKeepsTheBound(t *testing.T) {
	for seed := range histories.Seeds(t, 20, 100) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 4))
			m := fleet.NewMemory(fleet.MemoryOptions{})
			terms := randomTerms(rng, quota.FailClosed)
			var l ledger
			var instances []*quota.Limiter
			for range 1 + rng.IntN(5) {
				instances = append(instances, newLimiter(t, m, terms))
			}
			for range 500 {
				if _, err := instances[rng.IntN(len(instances))].TryAcquire(t.Context()); err == nil {
					l.letIn()
				}
				if rng.IntN(5) == 0 {
					time.Sleep(time.Duration(rng.Int64N(int64(time.Millisecond) << rng.IntN(10))))
				}
			}
			if over := l.excess(terms.Rate); over > 0 || l.n() == 0 {
				t.Errorf("seed %d: %d admitted, %d above the bound of %+v", seed, l.n(), over, terms)
			}
		})
	}
}
