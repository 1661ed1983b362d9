package promises

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// A story is one promise, and a way to check whether a library keeps it.
type story struct {
	name    string
	promise string
	tell    func(Library) verdict

	// spins says that callers never pause. A library whose values live for an instant
	// then needs a clock that runs.
	spins bool
}

// A verdict is the outcome of a story.
type verdict struct {
	Kept  bool
	NA    bool   // the promise does not apply
	Notes string // what was observed
}

func kept() verdict { return verdict{Kept: true} }

func notApplicable(why string) verdict { return verdict{NA: true, Notes: why} }

// broken returns a verdict that counts as kept if there are no notes.
func broken(notes ...string) verdict {
	return verdict{Kept: len(notes) == 0, Notes: strings.Join(notes, ", ")}
}

// patience is how long to wait for a caller without a deadline. In these stories, a
// caller that takes longer waits forever.
const patience = 10 * time.Minute

// A stage is a subject that counts its loads.
type stage struct {
	Subject[string]
	loads atomic.Int64
}

// set opens l for a story. load gets the number of the load, counted from 1.
func set(l Library, c Setup[string], load func(ctx context.Context, n int) (string, error)) *stage {
	s := &stage{}
	c.Load = func(ctx context.Context, _ string) (string, error) {
		return load(ctx, int(s.loads.Add(1)))
	}
	s.Subject = l.Open(c)
	return s
}

// A call is one call on its own goroutine.
type call struct {
	done chan struct{}

	// Written before done is closed, read only after.
	value    string
	err      error
	after    time.Duration
	panicked any
	exited   bool
}

func (s *stage) ask(ctx context.Context, key string) *call {
	c := &call{done: make(chan struct{}), exited: true}
	start := time.Now()
	go func() {
		defer close(c.done)
		defer func() {
			c.after = time.Since(start)
			if c.panicked = recover(); c.panicked != nil {
				c.exited = false
			}
		}()
		c.value, c.err = s.Get(ctx, key)
		c.exited = false
	}()
	return c
}

// crowd starts n calls for key without deadlines.
func (s *stage) crowd(n int, key string) []*call {
	calls := make([]*call, n)
	for i := range calls {
		calls[i] = s.ask(context.Background(), key)
	}
	return calls
}

// hangs waits for the result, and reports whether it never comes.
func (c *call) hangs() bool {
	select {
	case <-c.done:
		return false
	case <-time.After(patience):
		return true
	}
}

// outcome describes how the call ended.
func (c *call) outcome() string {
	switch {
	case c.hangs():
		return "never returned"
	case c.panicked != nil:
		return "panicked"
	case c.exited:
		return "goroutine ended"
	case c.err != nil:
		return "error " + short(c.err)
	case c.value == "":
		return "zero value and no error"
	}
	return fmt.Sprintf("%q", c.value)
}

// failed reports whether the caller got an error.
func (c *call) failed() bool {
	return !c.hangs() && c.panicked == nil && !c.exited && c.err != nil
}

func (c *call) got(value string) bool { return c.outcome() == fmt.Sprintf("%q", value) }

// unlike describes the outcomes of the calls for which want returns false.
func unlike(calls []*call, want func(*call) bool) []string {
	var order, notes []string
	counts := map[string]int{}
	for _, c := range calls {
		if want(c) {
			continue
		}
		o := c.outcome()
		if counts[o] == 0 {
			order = append(order, o)
		}
		counts[o]++
	}
	for _, o := range order {
		switch n := counts[o]; {
		case len(calls) == 1:
			notes = append(notes, o)
		case n == len(calls):
			notes = append(notes, fmt.Sprintf("all %d callers: %s", n, o))
		default:
			notes = append(notes, fmt.Sprintf("%d of %d callers: %s", n, len(calls), o))
		}
	}
	return notes
}

// wantLoads returns a note unless there were n loads.
func (s *stage) wantLoads(n int64) []string {
	if got := s.loads.Load(); got != n {
		return []string{fmt.Sprintf("%d loads", got)}
	}
	return nil
}

// short returns the first line of an error.
func short(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "context canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "deadline exceeded"
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
