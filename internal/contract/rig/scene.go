package rig

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/wait"
)

// A spring is a scripted source. The value of a load is its number, counted
// from 1 over all keys, so that a test sees which load answered.
type spring struct {
	Mu    sync.Mutex
	Takes time.Duration                                    // how long a load lasts; it follows its context
	err   error                                            // what loads end with, if not nil
	Say   func(key string, n int) (weir.Entry[int], error) // in place of all that, after takes
	calls []springCall
}

type springCall struct {
	key  string
	At   time.Duration // since the scene's start
	Prev weir.Previous[int]
}

// A Scene is a Guard over a spring in a bubble.
type Scene struct {
	*testing.T
	G      *weir.Guard[string, int]
	Spring *spring
	Start  time.Time
}

// Play runs f as a scene in a bubble, and closes its Guard.
func Play(t *testing.T, o weir.Options, f func(s *Scene)) {
	t.Helper()
	PlayFrom(t, o, nil, f)
}

// PlayFrom is play with a Source that edit has changed.
func PlayFrom(t *testing.T, o weir.Options, edit func(src *weir.Source[string, int]), f func(s *Scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &Scene{T: t, Spring: &spring{}, Start: time.Now()}
		src := weir.Source[string, int]{LoadEntry: s.load}
		if edit != nil {
			edit(&src)
		}
		var err error
		if s.G, err = weir.NewFrom(src, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.G.Close(context.Background()); err != nil {
				t.Errorf("Close = %v; want nil", err)
			}
		})
		f(s)
	})
}

func (s *Scene) load(ctx context.Context, key string, prev weir.Previous[int]) (weir.Entry[int], error) {
	p := s.Spring
	p.Mu.Lock()
	p.calls = append(p.calls, springCall{key, s.Now(), prev})
	n, takes, err, say := len(p.calls), p.Takes, p.err, p.Say
	p.Mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return weir.Entry[int]{}, wait.Cause(ctx)
		}
	}
	if say != nil {
		return say(key, n)
	}
	return weir.Entry[int]{Value: n}, err
}

// Set changes the spring's behavior.
func (s *Scene) Set(takes time.Duration, err error) {
	s.Spring.Mu.Lock()
	defer s.Spring.Mu.Unlock()
	s.Spring.Takes, s.Spring.err = takes, err
}

// Loads returns the loads that have started, once all goroutines wait.
func (s *Scene) Loads() []springCall {
	synctest.Wait()
	s.Spring.Mu.Lock()
	defer s.Spring.Mu.Unlock()
	return append([]springCall(nil), s.Spring.calls...)
}

func (s *Scene) WantLoads(n int) {
	s.Helper()
	if got := len(s.Loads()); got != n {
		s.Errorf("at %v: %d loads; want %d", s.Now(), got, n)
	}
}

func (s *Scene) Now() time.Duration { return time.Since(s.Start) }

// Until sleeps until d after the start, and waits until all goroutines that
// wake then block again.
func (s *Scene) Until(d time.Duration) {
	s.Helper()
	if d < s.Now() {
		s.Fatalf("at %v already; want to sleep until %v", s.Now(), d)
	}
	time.Sleep(d - s.Now())
	synctest.Wait()
}

// Get calls GetResult and waits.
func (s *Scene) Get(key string) weir.Result[int] {
	return s.G.GetResult(s.Context(), key)
}

// Prime loads key, which must succeed.
func (s *Scene) Prime(key string) {
	s.Helper()
	if r := s.Get(key); r.Err != nil {
		s.Fatalf("Get(%q) = %v", key, r.Err)
	}
}

// A Reply is the result of a call on its own goroutine.
type Reply struct {
	weir.Result[int]
	At   time.Duration
	Done chan struct{}
}

// Ask calls GetResult on a new goroutine, and returns when that waits.
func (s *Scene) Ask(key string) *Reply { return s.AskWith(s.Context(), key) }

func (s *Scene) AskWith(ctx context.Context, key string) *Reply {
	a := &Reply{Done: make(chan struct{})}
	go func() {
		defer close(a.Done)
		a.Result = s.G.GetResult(ctx, key)
		a.At = s.Now()
	}()
	synctest.Wait()
	return a
}

// WantAt waits for the reply and compares it and its time.
func (s *Scene) WantAt(a *Reply, at time.Duration, want weir.Result[int]) {
	s.Helper()
	<-a.Done
	if a.At != at {
		s.Errorf("answered at %v; want %v", a.At, at)
	}
	s.Want(a.Result, want)
}

// Want compares a Result without its FreshFor, and errors with errors.Is.
func (s *Scene) Want(got, want weir.Result[int]) {
	s.Helper()
	same := errors.Is(got.Err, want.Err) && (got.Err == nil) == (want.Err == nil) &&
		errors.Is(got.Cause, want.Cause) && (got.Cause == nil) == (want.Cause == nil)
	if f := got.FreshFor; f != 0 && (got.Superseded || got.State != weir.StateFresh && got.State != weir.StateNegative && got.State != weir.StateLoaded) {
		s.Errorf("at %v: FreshFor = %v in %+v; want 0", s.Now(), f, got)
	}
	g, w := plain(got), want
	g.Err, g.Cause, w.Err, w.Cause = nil, nil, nil, nil
	if !same || g != w {
		s.Errorf("at %v: Get = %+v; want %+v", s.Now(), got, want)
	}
}

// Says makes the spring's loads return e. A value of 0 is replaced with the
// load's number.
func (s *Scene) Says(e weir.Entry[int], err error) {
	s.Spring.Mu.Lock()
	defer s.Spring.Mu.Unlock()
	s.Spring.Say = func(_ string, n int) (weir.Entry[int], error) {
		e := e
		if e.Value == 0 {
			e.Value = n
		}
		return e, err
	}
}

// FourInstants are loaded at 0 by a load of 2 s, so that the instants lie at
// 82 s, 102 s, 152 s and 502 s.
var FourInstants = weir.Options{
	TTL:                  100 * sec,
	RefreshAhead:         0.2,
	RefreshJitter:        -1,
	StaleWhileRevalidate: 50 * sec,
	StaleIfError:         400 * sec,
}

// Tagged makes every load of the scene carry the tag.
func (s *Scene) Tagged(tags ...string) { s.Says(weir.Entry[int]{Tags: tags}, nil) }
