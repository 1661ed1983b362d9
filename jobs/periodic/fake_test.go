package periodic_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/ledger"
	"github.com/weir-go/weir/jobs/periodic"
)

// A fake is a store in memory, with the rules of jobs/claim.go, in a bubble's time. Jobs
// end at once, and their records are forgotten after keep.
type fake struct {
	keep time.Duration

	mu       sync.Mutex
	revision uint64
	marks    map[string]ledger.Mark
	last     map[string]uint64      // the revision of the latest message, by ID
	claimed  map[string]bool        // whether that is a claim
	accepted map[string][]time.Time // when a job was accepted, by ID
	expires  map[string]time.Time
}

func newFake(keep time.Duration) *fake {
	return &fake{
		keep: keep, marks: map[string]ledger.Mark{}, last: map[string]uint64{}, claimed: map[string]bool{},
		accepted: map[string][]time.Time{}, expires: map[string]time.Time{},
	}
}

// A view is the fake as one instance sees it.
type view struct {
	*fake
	skew   time.Duration
	before func(op string) error // nil: nothing; it can pause, or return an error
	after  func(op string) error // as before; an error is a lost response
}

var _ ledger.Ledger = (*view)(nil)

var errLost = fmt.Errorf("%w: lost", jobs.ErrUnavailable)

func (v *view) Now() time.Time { return time.Now().Add(v.skew) }

func do[T any](v *view, op string, f func() (T, error)) (T, error) {
	var zero T
	if v.before != nil {
		if err := v.before(op); err != nil {
			return zero, err
		}
	}
	v.mu.Lock()
	for id, at := range v.expires {
		if time.Now().After(at) {
			delete(v.expires, id)
			delete(v.last, id)
		}
	}
	result, err := f()
	v.mu.Unlock()
	if v.after != nil {
		if err := v.after(op); err != nil {
			return zero, err
		}
	}
	return result, err
}

func (v *view) ReadMark(_ context.Context, name string) (ledger.Mark, error) {
	return do(v, "read", func() (ledger.Mark, error) { return v.marks[name], nil })
}

func (v *view) WriteMark(_ context.Context, name string, data []byte, after uint64) (uint64, error) {
	return do(v, "write", func() (uint64, error) {
		if v.marks[name].Revision != after {
			return 0, ledger.ErrStale
		}
		v.revision++
		v.marks[name] = ledger.Mark{Data: data, Revision: v.revision}
		return v.revision, nil
	})
}

type claimed struct {
	c  ledger.Claim
	ok bool
}

func (v *view) Claim(_ context.Context, queue, _, options any) (ledger.Claim, bool, error) {
	id := options.(jobs.SubmitOptions).Key
	r, err := do(v, "claim", func() (claimed, error) {
		switch {
		case v.last[id] == 0:
			v.revision++
			v.last[id], v.claimed[id] = v.revision, true
		case !v.claimed[id]:
			return claimed{}, nil
		}
		return claimed{ledger.Claim{Queue: queue.(string), ID: id, Revision: v.last[id]}, true}, nil
	})
	return r.c, r.ok, err
}

func (v *view) Commit(_ context.Context, c ledger.Claim) (bool, error) {
	return do(v, "commit", func() (bool, error) {
		if v.last[c.ID] != c.Revision {
			return false, nil
		}
		v.revision++
		v.last[c.ID], v.claimed[c.ID] = v.revision, false
		v.accepted[c.ID] = append(v.accepted[c.ID], time.Now())
		v.expires[c.ID] = time.Now().Add(v.keep)
		return true, nil
	})
}

// of returns the ticks of a schedule whose jobs were accepted, and when.
func (f *fake) of(t *testing.T, name string) map[time.Time][]time.Time {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[time.Time][]time.Time{}
	for id, at := range f.accepted {
		if tick, ok := tickOf(t, name, id); ok {
			all[tick] = at
		}
	}
	return all
}

func tickOf(t *testing.T, name, key string) (time.Time, bool) {
	t.Helper()
	if len(key) <= len(name) || key[:len(name)+1] != name+"@" {
		return time.Time{}, false
	}
	tick, err := time.Parse(time.RFC3339, key[len(name)+1:])
	if err != nil {
		t.Fatalf("key %q: %v", key, err)
	}
	return tick.UTC(), true
}

// A recorder keeps the events of several instances.
type recorder struct {
	periodic.NopObserver
	mu  sync.Mutex
	all []periodic.Event // guarded by mu
}

func (r *recorder) Event(_ context.Context, e periodic.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

func (r *recorder) count(kind periodic.EventKind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.all {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

func nothing(time.Time) (any, error) { return nil, nil }

// run starts an instance, and closes it at the end of the test.
func run(t *testing.T, l ledger.Ledger, o periodic.Observer, all ...periodic.Schedule) *periodic.Scheduler {
	t.Helper()
	for i := range all {
		if !periodic.HasJob(all[i]) {
			all[i].Job = periodic.JobOf("q", nothing)
		}
	}
	s, err := periodic.NewWith(l, all, periodic.Options{MinInterval: time.Second, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// stop closes an instance, and waits for it.
func stop(t *testing.T, s *periodic.Scheduler) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatalf("Close = %v; want nil", err)
	}
}

// die closes an instance without waiting for it, as if it had been killed.
func die(s *periodic.Scheduler) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("killed"))
	s.Close(ctx)
}
