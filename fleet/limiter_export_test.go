package fleet

import (
	"math/rand/v2"
	"sync"
)

// Seed has l draw from seed, so that a history can be replayed.
func (l *Limiter) Seed(seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 2))
	var mu sync.Mutex
	l.d.random = func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return rng.Float64()
	}
}
