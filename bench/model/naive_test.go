package model

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sync/singleflight"
)

// naive is the usual hand-written cache: a map, with singleflight around the load. It
// shows that the check can fail: an invalidation during a load is lost, because the
// load stores its old value afterwards.
type naive struct {
	src    *source
	mu     sync.Mutex
	values map[int]int // guarded by mu
	group  singleflight.Group
}

func (c *naive) get(ctx context.Context, key int) (int, error) {
	c.mu.Lock()
	v, ok := c.values[key]
	c.mu.Unlock()
	if ok {
		return v, nil
	}
	out := <-c.group.DoChan(strconv.Itoa(key), func() (any, error) {
		v, err := c.loadMildly(ctx, key)
		if err == nil {
			c.mu.Lock()
			c.values[key] = v
			c.mu.Unlock()
		}
		return v, err
	})
	if out.Err != nil {
		return 0, out.Err
	}
	return out.Val.(int), nil
}

// loadMildly turns loads that panic, exit or hang into errors, because singleflight
// could not handle them.
func (c *naive) loadMildly(ctx context.Context, key int) (v int, err error) {
	done := make(chan struct{})
	err = errors.New("the load did not return")
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		ctx, cancel := context.WithTimeout(ctx, 40e6)
		defer cancel()
		v, err = c.src.load(ctx, key)
	}()
	<-done
	return v, err
}

func (c *naive) getMany(ctx context.Context, wanted []int) map[int]int {
	values := make(map[int]int)
	for _, key := range wanted {
		if v, err := c.get(ctx, key); err == nil {
			values[key] = v
		}
	}
	return values
}

func (c *naive) set(_ context.Context, key, value int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.values[key] = value
}

func (c *naive) forget(_ context.Context, key, _ int) {
	c.mu.Lock()
	delete(c.values, key)
	c.mu.Unlock()
	c.group.Forget(strconv.Itoa(key))
}

// TestTheCheckCatchesALostInvalidation proves that the histories are varied enough:
// some of those on the naive cache have no explanation.
func TestTheCheckCatchesALostInvalidation(t *testing.T) {
	caught := 0
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			src := newSource(seed)
			history := play(seed, src, &naive{src: src, values: make(map[int]int)}, 6, 25)
			if !porcupine.CheckOperations(register, history) {
				caught++
			}
		})
	}
	if caught < 10 {
		t.Errorf("%d of 40 histories of a cache that loses invalidations were rejected; want at least 10", caught)
	}
}
