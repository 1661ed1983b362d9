package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/wait"
)

// A Bulk is a source of several keys whose behavior a story changes as it
// goes: each load uses the fields as they are when it begins.
type Bulk struct {
	Takes time.Duration
	Err   error
	Lacks []string // keys it does not have

	Mu     sync.Mutex
	Calls  []string // guarded by mu: the sorted keys of each call, and when it began
	Causes []error  // guarded by mu: of the calls that were canceled
	start  time.Time
}

// Load returns the number of the call for every key, counted from 1.
func (b *Bulk) Load(ctx context.Context, keys []string) (map[string]int, error) {
	b.Mu.Lock()
	takes, err, lacks := b.Takes, b.Err, b.Lacks
	if b.start.IsZero() {
		b.start = time.Now()
	}
	b.Calls = append(b.Calls, fmt.Sprintf("%s at %v", strings.Join(slices.Sorted(slices.Values(keys)), " "), time.Since(b.start)))
	n := len(b.Calls)
	b.Mu.Unlock()
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		b.Mu.Lock()
		b.Causes = append(b.Causes, wait.Cause(ctx))
		b.Mu.Unlock()
		return nil, wait.Cause(ctx)
	}
	values := map[string]int{"nobody asked": -1}
	for _, key := range keys {
		if !slices.Contains(lacks, key) {
			values[key] = n
		}
	}
	return values, err
}

func (b *Bulk) Want(s *Story, calls ...string) {
	s.Helper()
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if !slices.Equal(b.Calls, calls) {
		s.Errorf("calls: %q; want %q", b.Calls, calls)
	}
}

// A ManyAnswer is the result of GetMany, and its time.
type ManyAnswer struct {
	Results map[string]weir.Result[int]
	At      time.Duration
	Done    chan struct{}
}

// Many calls GetMany on a new goroutine, and returns when that waits.
func (s *Story) Many(ctx context.Context, g *weir.Guard[string, int], keys ...string) *ManyAnswer {
	a := &ManyAnswer{Done: make(chan struct{})}
	s.Ask(func() weir.Result[int] {
		defer close(a.Done)
		a.Results = g.GetMany(ctx, keys)
		a.At = s.Now()
		return weir.Result[int]{}
	})
	return a
}

// WantMany waits for the answer and compares it: each key with its value or
// its error.
func (s *Story) WantMany(a *ManyAnswer, at time.Duration, want map[string]any) {
	s.Helper()
	<-a.Done
	if a.At != at || len(a.Results) != len(want) {
		s.Errorf("GetMany: %d results at %v; want %d at %v", len(a.Results), a.At, len(want), at)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		r := a.Results[key]
		err, failed := want[key].(error)
		if failed && (!errors.Is(r.Err, err) || r.Value != 0) || !failed && (r.Err != nil || r.Value != want[key]) {
			s.Errorf("%s: %d, %v; want %v", key, r.Value, r.Err, want[key])
		}
	}
}
