package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

const keys = 3

// A source is the data that is cached: one number per key, which only grows.
type source struct {
	mu      sync.Mutex
	version [keys]int        // guarded by mu
	rng     *rand.Rand       // guarded by mu
	writers [keys]sync.Mutex // one writer per key, as with a row lock
}

var errSource = errors.New("source failed")

func newSource(seed uint64) *source {
	return &source{rng: rand.New(rand.NewPCG(seed, 1))}
}

// write increments the number of key and returns it.
func (s *source) write(key int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version[key]++
	return s.version[key]
}

// A fate is how one load ends.
type fate struct {
	before, after time.Duration // before and after reading the number
	end           int
}

const (
	endValue = iota
	endError
	endPanic
	endGoexit
	endHang // hangs until it is canceled
	endDeaf // ignores its context for ten minutes, then returns a value
)

// draw draws a fate. Most loads succeed, and take a while after they have read the
// number: in that time a write can overtake them.
func (s *source) draw() fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := fate{
		before: time.Duration(s.rng.IntN(5)) * time.Millisecond,
		after:  time.Duration(s.rng.IntN(20)) * time.Millisecond,
	}
	switch n := s.rng.IntN(20); {
	case n < 14:
		f.end = endValue
	default:
		f.end = endError + n%5
	}
	return f
}

// look returns the numbers of the keys as seen by one load.
func (s *source) look(ctx context.Context, wanted []int) (map[int]int, error) {
	f := s.draw()
	time.Sleep(f.before)
	seen := make(map[int]int)
	s.mu.Lock()
	for _, key := range wanted {
		seen[key] = s.version[key]
	}
	s.mu.Unlock()
	time.Sleep(f.after)
	switch f.end {
	case endError:
		return nil, errSource
	case endPanic:
		panic("source panicked")
	case endGoexit:
		runtime.Goexit()
	case endHang:
		<-ctx.Done()
		return seen, nil // a value, although it is late
	case endDeaf:
		time.Sleep(10 * time.Minute)
	}
	return seen, nil
}

func (s *source) load(ctx context.Context, key int) (int, error) {
	seen, err := s.look(ctx, []int{key})
	return seen[key], err
}
