package fleetlab

import (
	"context"
	"sync"
	"time"
)

// A Sampler counts the commands sent to engines across their restarts, which reset
// the engines' own counts.
type Sampler struct {
	addrs []string
	end   context.CancelFunc
	done  sync.WaitGroup

	mu    sync.Mutex
	last  map[string]Commands // guarded by mu; of each engine, at its last response
	total int64               // guarded by mu
}

// samplePause is the time between two samples. Commands after the last sample before
// an engine dies are not counted.
const samplePause = 100 * time.Millisecond

// NewSampler returns a Sampler that samples until Stop.
func NewSampler(addrs ...string) *Sampler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sampler{addrs: addrs, end: cancel, last: make(map[string]Commands)}
	for _, addr := range addrs {
		s.ask(ctx, addr) // earlier commands do not count
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

// ask samples an engine, and ignores an engine that does not respond.
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

// Stop samples once more and returns the number of commands.
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
