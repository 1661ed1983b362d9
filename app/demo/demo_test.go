package demo_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/app/demo"
	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/app/demo/tile"
	"github.com/weir-go/weir/app/report"
)

// levelNames returns the names of the levels.
func levelNames(gateway bool) []string {
	names := []string{"unprotected", "coalescing", "+ cache", "+ refresh-ahead", "+ admission"}
	if gateway {
		names = slices.Insert(names, 1, "one address")
	}
	return names
}

// A scripted source answers with the key, after load has had its say.
type scripted struct {
	load func(ctx context.Context, key int) error
}

func (s scripted) ContentType() string { return "text/plain" }

func (s scripted) Load(ctx context.Context, key int, m *source.Meter) ([]byte, error) {
	defer m.Begin()()
	if s.load != nil {
		if err := s.load(ctx, key); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, "answer %d", key), nil
}

// steps is a Progress that keeps the names of the steps.
type steps struct {
	mu      sync.Mutex
	names   []string // guarded by mu
	started func(step string)
}

func (s *steps) Start(step string, detail func() string) {
	s.mu.Lock()
	s.names = append(s.names, step)
	s.mu.Unlock()
	_ = detail()
	if s.started != nil {
		s.started(step)
	}
}

func (s *steps) Done(string) {}

func config(src source.Source) demo.Config {
	return demo.Config{
		Source: src, Clients: 8, Keys: 4, Duration: 200 * time.Millisecond, Seed: 1, Progress: &steps{},
	}
}

func TestRunEveryLevelDoesTheSameWorkWithFewerCalls(t *testing.T) {
	t.Run("guard", func(t *testing.T) { everyLevel(t, false) })
	t.Run("gateway", func(t *testing.T) { everyLevel(t, true) })
}

func everyLevel(t *testing.T, gateway bool) {
	c := config(tile.Source{})
	c.Gateway = gateway
	p := &steps{}
	c.Progress = p
	res, err := demo.Run(t.Context(), c)
	for ; err == nil && gateway && res.Levels[1].Peak <= c.Keys && c.Duration < 4*time.Second; res, err = demo.Run(t.Context(), c) {
		// On a busy machine, more clients than keys may never call at once in so short a time.
		c.Duration *= 2
		*p = steps{}
	}
	if err != nil {
		t.Fatal(err)
	}
	names := levelNames(gateway)
	if len(res.Levels) != len(names) || len(p.names) != 1+len(names) {
		t.Fatalf("%d levels, %d steps; want %d and one more", len(res.Levels), len(p.names), len(names))
	}
	if res.Call <= 0 {
		t.Errorf("Call = %v; want the time of a call", res.Call)
	}
	for i, l := range res.Levels {
		check(t, l, names[i])
	}
	if l := res.Levels[0]; l.Calls != l.Requests {
		t.Errorf("unprotected: %d calls for %d requests; want one for each", l.Calls, l.Requests)
	}
	if gateway {
		if one, all := res.Levels[1], res.Levels[2]; one.Peak <= c.Keys && runtime.GOOS == "linux" {
			t.Errorf("one address: %d concurrent calls beside %d; want those of other addresses to be apart", one.Peak, all.Peak)
		}
		res.Levels = slices.Delete(res.Levels, 1, 2)
	}
	if l := res.Levels[1]; l.Peak > c.Keys {
		t.Errorf("coalescing: %d concurrent calls; want at most one a key, %d", l.Peak, c.Keys)
	}
	for _, l := range res.Levels[2:] {
		// A level is over within a TTL.
		if l.Calls > int64(c.Keys) && l.ElapsedS < demo.TTL.Seconds()*(1-demo.RefreshAhead)/2 {
			t.Errorf("%s: %d calls; want at most one a key, %d", l.Name, l.Calls, c.Keys)
		}
	}
	// The limit begins at GOMAXPROCS, and a source that computes takes no more.
	if l, most := res.Levels[4], 4*runtime.GOMAXPROCS(0); l.Peak > most {
		t.Errorf("admission: %d concurrent calls; want at most %d", l.Peak, most)
	}
}

func check(t *testing.T, l report.Level, name string) {
	t.Helper()
	if l.Name != name {
		t.Errorf("level is called %q; want %q", l.Name, name)
	}
	if l.Requests == 0 || l.PerSecond <= 0 || l.Calls == 0 || l.Peak == 0 || l.Adds == "" {
		t.Errorf("%s: something is missing: %+v", l.Name, l)
	}
	if l.Failures != 0 || l.FirstFailure != "" {
		t.Errorf("%s: %d failures, the first %q; want none", l.Name, l.Failures, l.FirstFailure)
	}
	if l.P50MS <= 0 || l.P50MS > l.P99MS || l.P99MS > l.SlowestMS {
		t.Errorf("%s: p50, p99, slowest = %v, %v, %v ms; want them above 0 and in order",
			l.Name, l.P50MS, l.P99MS, l.SlowestMS)
	}
}

func TestRunCountsFailures(t *testing.T) {
	var calls atomic.Int64
	c := config(nil)
	c.Source = scripted{load: func(context.Context, int) error {
		if calls.Add(1) > int64(c.Keys) { // the answers are known; from now on it is down
			return errors.New("the source is down")
		}
		return nil
	}}
	res, err := demo.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range res.Levels {
		if l.Failures != l.Requests || l.Requests == 0 || l.PerSecond != 0 {
			t.Errorf("%s: %d of %d requests failed, %v per second; want all, 0", l.Name, l.Failures, l.Requests, l.PerSecond)
		}
		if !strings.Contains(l.FirstFailure, "502") || !strings.Contains(l.FirstFailure, "the source is down") {
			t.Errorf("%s: first failure %q; want a 502 that says why", l.Name, l.FirstFailure)
		}
	}
}

func TestRunNoticesAWrongAnswer(t *testing.T) {
	var calls atomic.Int64
	c := config(nil)
	c.Source = wrong{calls: &calls, after: int64(c.Keys)}
	if _, err := demo.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "belonged to another key") {
		t.Errorf("Run with a source that mixes up its keys = %v; want an error that says so", err)
	}
}

// wrong answers with the next key's answer, after a number of right ones.
type wrong struct {
	scripted
	calls *atomic.Int64
	after int64
}

func (w wrong) Load(ctx context.Context, key int, m *source.Meter) ([]byte, error) {
	if w.calls.Add(1) > w.after {
		key++
	}
	return w.scripted.Load(ctx, key, m)
}

func TestRunSourceDownFromTheStart(t *testing.T) {
	down := errors.New("the source is down")
	c := config(scripted{load: func(context.Context, int) error { return down }})
	if _, err := demo.Run(t.Context(), c); !errors.Is(err, down) {
		t.Errorf("Run = %v; want %v", err, down)
	}
}

// An interrupt at any level ends the run at once, with all that it started.
func TestRunEndsWithItsContextAndLeavesNothing(t *testing.T) {
	for _, gateway := range []bool{false, true} {
		for i, name := range append([]string{"working out"}, levelNames(gateway)...) {
			t.Run(fmt.Sprintf("%s, gateway=%v", name, gateway), func(t *testing.T) { endsIn(t, i, gateway) })
		}
	}
}

// endsIn interrupts a run in step i. A step that is over before a client had its turn
// has no call to be interrupted in: then it is run again, with longer steps.
func endsIn(t *testing.T, i int, gateway bool) {
	for d := 10 * time.Millisecond; !endsWithin(t, i, gateway, d); d *= 2 {
	}
}

// endsWithin is endsIn with levels that last for d. It reports false if there was no
// call in step i.
func endsWithin(t *testing.T, i int, gateway bool, d time.Duration) bool {
	interrupted := errors.New("interrupted")
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	c := config(nil)
	c.Gateway = gateway
	c.Duration = d
	var at atomic.Int64
	at.Store(-1)
	c.Source = scripted{load: func(ctx context.Context, _ int) error {
		if at.Load() < int64(i) {
			return nil
		}
		cancel(interrupted) // in the middle of a call
		<-ctx.Done()
		return context.Cause(ctx)
	}}
	c.Progress = &steps{started: func(string) { at.Add(1) }}
	_, err := demo.Run(ctx, c)
	if err == nil && ctx.Err() == nil {
		return false
	}
	if !errors.Is(err, interrupted) {
		t.Errorf("Run = %v; want %v", err, interrupted)
	}
	if at.Load() != int64(i) {
		t.Errorf("ended in step %d; want %d", at.Load(), i)
	}
	if left := leaked(before); left != "" {
		t.Errorf("goroutines left:\n%s", left)
	}
	return true
}

// leaked waits for the number of goroutines to come down to before; those that
// are not gone after a while are returned. A goroutine that has done its work
// may take a moment to go.
func leaked(before int) string {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); runtime.Gosched() {
		if runtime.NumGoroutine() <= before {
			return ""
		}
	}
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
