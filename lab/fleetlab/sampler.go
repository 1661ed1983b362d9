package fleetlab

import (
	"context"
	"sync"
	"time"
)

// A Sampler counts the commands that engines are sent while they come and go: an
// engine that starts again begins to count anew.
type Sampler struct {
	addrs []string
	end   context.CancelFunc
	done  sync.WaitGroup

	mu    sync.Mutex
	last  map[string]Commands // guarded by mu; of each engine, when it last answered
	total int64               // guarded by mu
}

// samplePause is the time between two questions. What an engine was sent since
// the last one before it died is not known.
const samplePause = 100 * time.Millisecond

// NewSampler returns a Sampler that asks until Stop.
func NewSampler(addrs ...string) *Sampler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sampler{addrs: addrs, end: cancel, last: make(map[string]Commands)}
	for _, addr := range addrs {
		s.ask(ctx, addr) // what was before does not count
	}
	s.total = 0
	for _, addr := range addrs {
		s.done.Go(func() {
			tick := time.NewTicker(samplePause)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					s.ask(ctx, addr)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	return s
}

// ask asks an engine, and does not mind if it does not answer.
func (s *Sampler) ask(ctx context.Context, addr string) {
	now, err := CommandsAt(ctx, addr)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.last[addr]
	if now.Sum() < before.Sum() { // it has started again
		before = nil
	}
	s.last[addr] = now
	s.total += now.Since(before).Sum()
}

// Stop asks once more and returns how many commands there were.
func (s *Sampler) Stop() int64 {
	s.end()
	s.done.Wait()
	for _, addr := range s.addrs {
		s.ask(context.Background(), addr)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
