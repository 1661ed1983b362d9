package reports_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

// A link is one Observer of several. It records its calls in a shared log, with
// the value that it put into the context.
type link struct {
	name string
	log  *chainLog
	act  func(method string) // may panic
}

type chainLog struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

type linkKey struct{}

func (l *link) note(ctx context.Context, method string) {
	own := any(nil)
	if ctx != nil {
		own = ctx.Value(linkKey{})
	}
	l.log.mu.Lock()
	l.log.lines = append(l.log.lines, fmt.Sprint(method, " ", l.name, " ", own))
	l.log.mu.Unlock()
	if l.act != nil {
		l.act(method)
	}
}

func (l *link) LoadStart(ctx context.Context, _ weir.LoadInfo) context.Context {
	l.note(ctx, "start")
	return context.WithValue(ctx, linkKey{}, "of "+l.name)
}

func (l *link) LoadEnd(ctx context.Context, _ weir.LoadInfo, _ weir.LoadEnd) { l.note(ctx, "end") }
func (l *link) Waited(_ context.Context, w weir.Wait)                        { l.note(w.Load, "waited") }
func (l *link) Event(ctx context.Context, e weir.Event)                      { l.note(ctx, e.Kind.String()) }

// take returns the lines so far and clears them.
func (l *chainLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	slices.Sort(lines[min(1, len(lines)):]) // the end and the wait are reported concurrently
	return lines
}

// O2: each Observer gets the contexts that it returned, LoadEnd is called in
// reverse order, and a nil Observer is skipped.
func TestO2ObserversAreChained(t *testing.T) {
	var log chainLog
	a, b := &link{name: "a", log: &log}, &link{name: "b", log: &log}
	o := weir.Observers(a, nil, b)
	ctx := o.LoadStart(t.Context(), weir.LoadInfo{})
	o.LoadEnd(ctx, weir.LoadInfo{}, weir.LoadEnd{})
	o.Waited(t.Context(), weir.Wait{Load: ctx})
	o.Waited(t.Context(), weir.Wait{})
	o.Event(t.Context(), weir.Event{Kind: weir.EventRefused})
	want := []string{
		"start a <nil>", "start b of a", "end b of b", "end a of a", "waited a of a", "waited b of b",
		"waited a <nil>", "waited b <nil>", "refused a <nil>", "refused b <nil>",
	}
	if !slices.Equal(log.lines, want) {
		t.Errorf("calls = %q; want %q", log.lines, want)
	}
	if got := ctx.Value(linkKey{}); got != "of b" {
		t.Errorf("the load's context has %v; want what the last one returned", got)
	}
}

// O2: if one Observer panics or exits, the others are still called, and the
// load's callers get their answer.
func TestO2ObserversAreIsolated(t *testing.T) {
	for name, act := range map[string]func(string){
		"panic": func(method string) { panic(method) },
		"exit in the end": func(method string) {
			if method == "end" {
				runtime.Goexit()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log chainLog
			bad, good := &link{name: "bad", log: &log, act: act}, &link{name: "good", log: &log}
			rig.Play(t, weir.Options{TTL: time.Hour, Observer: weir.Observers(bad, good, bad)}, func(s *rig.Scene) {
				s.Want(s.Get("k"), rig.Loaded(1))
				synctest.Wait()
				counts := map[string]int{}
				for _, line := range log.take() {
					var method, who string
					fmt.Sscan(line, &method, &who)
					counts[method+" "+who]++
				}
				for _, method := range []string{"start", "end", "waited"} {
					if counts[method+" good"] != 1 || counts[method+" bad"] != 2 {
						s.Errorf("calls = %v; want all three told of %s", counts, method)
					}
				}
				if n := s.G.Stats().ObserverPanics; n == 0 {
					s.Error("Stats().ObserverPanics = 0; want them counted")
				}
			})
		})
	}
}

// O2: an invalidation is an event, with the caller's context.
func TestO2InvalidationsAreEvents(t *testing.T) {
	var rec eventLog
	rig.Play(t, weir.Options{TTL: time.Hour, Observer: &rec}, func(s *rig.Scene) {
		ctx := context.WithValue(s.Context(), linkKey{}, "mine")
		for _, err := range []error{
			s.G.Invalidate(ctx, "a", "b"), s.G.Expire(ctx, "c"), s.G.InvalidateTags(ctx, "x", "y"), s.G.InvalidateAll(ctx),
			s.G.ExpireTags(ctx, "x"), s.G.ExpireAll(ctx),
			s.G.Invalidate(ctx), s.G.InvalidateTags(ctx), s.G.Expire(ctx), s.G.ExpireTags(ctx),
		} {
			if err != nil {
				s.Fatal(err)
			}
		}
		if err := s.G.Close(s.Context()); err != nil {
			s.Fatal(err)
		}
		if err := s.G.Invalidate(ctx, "a"); !errors.Is(err, weir.ErrClosed) {
			s.Errorf("Invalidate after Close = %v; want ErrClosed", err)
		}
		want := []string{
			"mine: invalidated a, 2 keys, tags []", "mine: expired c, 1 keys, tags []",
			"mine: invalidated <nil>, 0 keys, tags [x y]", "mine: invalidated <nil>, 0 keys, tags []",
			"mine: expired <nil>, 0 keys, tags [x]", "mine: expired <nil>, 0 keys, tags []",
		}
		if !slices.Equal(rec.lines, want) {
			s.Errorf("events = %q; want %q", rec.lines, want)
		}
	})
}

// An eventLog notes events as text.
type eventLog struct {
	weir.NopObserver
	mu    sync.Mutex
	lines []string
}

func (l *eventLog) Event(ctx context.Context, e weir.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf("%v: %v %v, %d keys, tags %v", ctx.Value(linkKey{}), e.Kind, e.Key, e.Keys, e.Tags))
}

// O1, O2: evictions are counted, and are events only with ReportEvictions.
func TestO2EvictionsAreCountedAndReportedOnRequest(t *testing.T) {
	for _, report := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rec := &rig.Recorder{}
			g := weir.Must(weir.New(func(_ context.Context, k int) (int, error) { return k, nil },
				weir.Options{TTL: time.Hour, MaxEntries: 100, Observer: rec, ReportEvictions: report}))
			for k := range 5000 {
				if err := g.Set(t.Context(), k, k); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.Invalidate(t.Context(), 4999); err != nil { // which is no eviction
				t.Fatal(err)
			}
			synctest.Wait()
			st := g.Stats()
			if n := st.Evicted; n < 3000 || n > 5000 {
				t.Errorf("Stats().Evicted = %d of 5000 entries where 100 have room", n)
			}
			want := 0
			if report {
				want = int(st.Evicted)
			}
			if n := rec.Count(weir.EventEvicted); n != want {
				t.Errorf("ReportEvictions %t: %d events; want %d", report, n, want)
			}
			if err := g.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
