package jobs_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// A limitHistory has what all workers of a test printed.
type limitHistory struct {
	mu      sync.Mutex
	events  []limitEvent // guarded by mu
	killed  int          // guarded by mu
	running map[string]map[string]time.Time
	most    map[string]int
}

// follow reads what a child prints, until stop is closed or the child is killed after a
// random time. It returns false after stop. An attempt that was killed counts until just
// before the kill: it ran at least until then.
func (h *limitHistory) follow(c *contractChild, stop <-chan struct{}) bool {
	kill := time.After(500*time.Millisecond + rand.N(2*time.Second))
	open := make(map[string]limitEvent)
	again := true
	add := func(line string) {
		var e limitEvent
		if json.Unmarshal([]byte(line), &e) != nil {
			return
		}
		if e.Begin {
			open[e.Job] = e
		} else {
			delete(open, e.Job)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(h.events, e)
	}
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				return again
			}
			add(line)
			continue
		case <-stop:
			again = false
		case <-kill:
		}
		break
	}
	at := time.Now()
	c.kill()
	for line := range c.lines {
		add(line)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.killed += len(open)
	for _, e := range open {
		h.events = append(h.events, limitEvent{Job: e.Job, Key: e.Key, At: later(e.At, at)})
	}
	return again
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// check counts the jobs of each key that ran at once.
func (h *limitHistory) check(t *testing.T) {
	slices.SortStableFunc(h.events, func(a, b limitEvent) int {
		if c := a.At.Compare(b.At); c != 0 || a.Begin == b.Begin {
			return c
		}
		if a.Begin { // an end first
			return 1
		}
		return -1
	})
	for _, e := range h.events {
		jobs := h.running[e.Key]
		if jobs == nil {
			jobs = make(map[string]time.Time)
			h.running[e.Key] = jobs
		}
		if !e.Begin {
			delete(jobs, e.Job)
			continue
		}
		jobs[e.Job] = e.At
		h.most[e.Key] = max(h.most[e.Key], len(jobs))
		if len(jobs) > limitOf.Concurrency {
			t.Errorf("%d jobs of key %q run at %v; want at most %d", len(jobs), e.Key, e.At, limitOf.Concurrency)
		}
	}
	for key, n := range h.most {
		if n != limitOf.Concurrency {
			t.Errorf("at most %d jobs of key %q ran at once; want %d to be used", n, key, limitOf.Concurrency)
		}
	}
	t.Logf("%d events, %d attempts were killed", len(h.events), h.killed)
	if h.killed == 0 {
		t.Error("no attempt was killed; the test shows nothing")
	}
}
