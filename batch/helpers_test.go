package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/batch"
)

const ms = time.Millisecond

var errDown = errors.New("the source is down")

// A story is a test whose steps happen at given times on the clock of its bubble.
type story struct {
	*testing.T
	start time.Time
}

func tell(t *testing.T, f func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(&story{T: t, start: time.Now()}) })
}

func (s *story) now() time.Duration { return time.Since(s.start) }

// at sleeps until d after the start, and then until all other goroutines block.
func (s *story) at(d time.Duration) {
	time.Sleep(d - s.now())
	synctest.Wait()
}

// until returns a context that ends d after the start.
func (s *story) until(d time.Duration) context.Context {
	ctx, cancel := context.WithDeadline(s.Context(), s.start.Add(d))
	s.Cleanup(cancel)
	return ctx
}

// A table is a source whose behavior a story can change at any time: each bulk call
// uses the fields as they are when it begins. The result of an item is twice the item.
type table struct {
	takes time.Duration
	deaf  bool // it ignores its context
	err   error
	bad   map[int]error // items that fail; with whole the entire call fails
	whole bool
	does  func(ctx context.Context, items []int) ([]int, error) // after takes, instead of the above

	s      *story
	mu     sync.Mutex
	calls  []string // guarded by mu: the items and the start of each call
	causes []error  // guarded by mu: of the calls that were canceled
}

func (tb *table) run(ctx context.Context, items []int) ([]int, error) {
	takes, deaf, does := tb.takes, tb.deaf, tb.does
	tb.mu.Lock()
	tb.calls = append(tb.calls, fmt.Sprintf("%v at %v", items, tb.s.now()))
	tb.mu.Unlock()
	var hung <-chan struct{}
	if !deaf {
		hung = ctx.Done()
	}
	select {
	case <-time.After(takes):
	case <-hung:
		tb.mu.Lock()
		tb.causes = append(tb.causes, context.Cause(ctx))
		tb.mu.Unlock()
		return nil, ctx.Err()
	}
	if does != nil {
		return does(ctx, items)
	}
	results := make([]int, len(items))
	errs := make(batch.Errors, len(items))
	var partial error
	for i, item := range items {
		if err := tb.bad[item]; err != nil {
			errs[i], partial = err, errs
			continue
		}
		results[i] = 2 * item
	}
	switch {
	case partial != nil && tb.whole:
		return nil, errWhole
	case partial != nil:
		return results, partial
	}
	return results, tb.err
}

// want compares the calls, ignoring the order of calls at the same instant.
func (tb *table) want(calls ...string) {
	tb.s.Helper()
	synctest.Wait()
	tb.mu.Lock()
	defer tb.mu.Unlock()
	slices.Sort(calls)
	if !slices.Equal(slices.Sorted(slices.Values(tb.calls)), calls) {
		tb.s.Errorf("calls: %q; want %q", tb.calls, calls)
	}
}

// batcher returns a Batcher around tb. At the end of the story it is closed and must
// be idle.
func (s *story) batcher(tb *table, o batch.Options) *batch.Batcher[int, int] {
	s.Helper()
	return s.batcherFrom(batch.Source[int, int]{}, tb, o)
}

func (s *story) batcherFrom(src batch.Source[int, int], tb *table, o batch.Options) *batch.Batcher[int, int] {
	s.Helper()
	tb.s, src.Run = s, tb.run
	b, err := batch.NewFrom(src, o)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			s.Errorf("Close = %v; want nil", err)
		}
		if st := b.Stats(); st.Pending != 0 || st.Running != 0 || st.Stuck != 0 {
			s.Errorf("Pending, Running, Stuck = %d, %d, %d after Close; want 0", st.Pending, st.Running, st.Stuck)
		}
	})
	return b
}

// An answer is the result of a call of Do, and when it returned.
type answer struct {
	value int
	err   error
	at    time.Duration
	done  chan struct{}
}

// do calls Do on a new goroutine, and returns when that waits.
func (s *story) do(ctx context.Context, b *batch.Batcher[int, int], item int) *answer {
	a := &answer{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.value, a.err = b.Do(ctx, item)
		a.at = s.now()
	}()
	synctest.Wait()
	return a
}

// want waits for the answer and checks it.
func (s *story) want(a *answer, value int, err error, at time.Duration) {
	s.Helper()
	<-a.done
	if a.value != value || !errors.Is(a.err, err) || a.at != at {
		s.Errorf("Do = %d, %v at %v; want %d, %v at %v", a.value, a.err, a.at, value, err, at)
	}
}
