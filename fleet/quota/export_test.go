package quota

import (
	"math/rand/v2"
	"sync"

	"github.com/weir-go/weir/internal/spread"
)

// The tests of this package expect the least RetryAfter.
func init() { spread.Fix(func() float64 { return 0 }) }

// Seed makes l draw its random numbers from seed, so that a history can be replayed.
func (l *Limiter) Seed(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	var mu sync.Mutex
	l.d.random = func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
}
