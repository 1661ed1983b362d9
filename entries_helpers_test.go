package weir_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A spring is a scripted source. The value of a load is its number, counted
// from 1 over all keys, so that a test sees which load answered.
type spring struct {
	mu    sync.Mutex
	takes time.Duration                                    // how long a load lasts; it follows its context
	err   error                                            // what loads end with, if not nil
	say   func(key string, n int) (weir.Entry[int], error) // in place of all that, after takes
	calls []springCall
}

type springCall struct {
	key  string
	at   time.Duration // since the scene's start
	prev weir.Previous[int]
}

// A scene is a Guard over a spring in a bubble.
type scene struct {
	*testing.T
	g      *weir.Guard[string, int]
	spring *spring
	start  time.Time
}

// play runs f as a scene in a bubble, and closes its Guard.
func play(t *testing.T, o weir.Options, f func(s *scene)) {
	t.Helper()
	playFrom(t, o, nil, f)
}

// playFrom is play with a Source that edit has changed.
func playFrom(t *testing.T, o weir.Options, edit func(src *weir.Source[string, int]), f func(s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{T: t, spring: &spring{}, start: time.Now()}
		src := weir.Source[string, int]{LoadEntry: s.load}
		if edit != nil {
			edit(&src)
		}
		var err error
		if s.g, err = weir.NewFrom(src, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.g.Close(context.Background()); err != nil {
				t.Errorf("Close = %v; want nil", err)
			}
		})
		f(s)
	})
}

func (s *scene) load(ctx context.Context, key string, prev weir.Previous[int]) (weir.Entry[int], error) {
	p := s.spring
	p.mu.Lock()
	p.calls = append(p.calls, springCall{key, s.now(), prev})
	n, takes, err, say := len(p.calls), p.takes, p.err, p.say
	p.mu.Unlock()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			return weir.Entry[int]{}, ctx.Err()
		}
	}
	if say != nil {
		return say(key, n)
	}
	return weir.Entry[int]{Value: n}, err
}

// set changes the spring's behaviour.
func (s *scene) set(takes time.Duration, err error) {
	s.spring.mu.Lock()
	defer s.spring.mu.Unlock()
	s.spring.takes, s.spring.err = takes, err
}

// loads returns the loads that have started, once all goroutines wait.
func (s *scene) loads() []springCall {
	synctest.Wait()
	s.spring.mu.Lock()
	defer s.spring.mu.Unlock()
	return append([]springCall(nil), s.spring.calls...)
}

func (s *scene) wantLoads(n int) {
	s.Helper()
	if got := len(s.loads()); got != n {
		s.Errorf("at %v: %d loads; want %d", s.now(), got, n)
	}
}

func (s *scene) now() time.Duration { return time.Since(s.start) }

// until sleeps until d after the start, and waits until all goroutines that
// wake then block again.
func (s *scene) until(d time.Duration) {
	s.Helper()
	if d < s.now() {
		s.Fatalf("at %v already; want to sleep until %v", s.now(), d)
	}
	time.Sleep(d - s.now())
	synctest.Wait()
}

// get calls GetResult and waits.
func (s *scene) get(key string) weir.Result[int] {
	return s.g.GetResult(s.Context(), key)
}

// prime loads key, which must succeed.
func (s *scene) prime(key string) {
	s.Helper()
	if r := s.get(key); r.Err != nil {
		s.Fatalf("Get(%q) = %v", key, r.Err)
	}
}

// A reply is the result of a call on its own goroutine.
type reply struct {
	weir.Result[int]
	at   time.Duration
	done chan struct{}
}

// ask calls GetResult on a new goroutine, and returns when that waits.
func (s *scene) ask(key string) *reply { return s.askWith(s.Context(), key) }

func (s *scene) askWith(ctx context.Context, key string) *reply {
	a := &reply{done: make(chan struct{})}
	go func() {
		defer close(a.done)
		a.Result = s.g.GetResult(ctx, key)
		a.at = s.now()
	}()
	synctest.Wait()
	return a
}

// wantAt waits for the reply and compares it and its time.
func (s *scene) wantAt(a *reply, at time.Duration, want weir.Result[int]) {
	s.Helper()
	<-a.done
	if a.at != at {
		s.Errorf("answered at %v; want %v", a.at, at)
	}
	s.want(a.Result, want)
}

// want compares a Result without its FreshFor, and errors with errors.Is.
func (s *scene) want(got, want weir.Result[int]) {
	s.Helper()
	same := errors.Is(got.Err, want.Err) && (got.Err == nil) == (want.Err == nil) &&
		errors.Is(got.Cause, want.Cause) && (got.Cause == nil) == (want.Cause == nil)
	if f := got.FreshFor; f != 0 && (got.Superseded || got.State != weir.StateFresh && got.State != weir.StateNegative && got.State != weir.StateLoaded) {
		s.Errorf("at %v: FreshFor = %v in %+v; want 0", s.now(), f, got)
	}
	g, w := plain(got), want
	g.Err, g.Cause, w.Err, w.Cause = nil, nil, nil, nil
	if !same || g != w {
		s.Errorf("at %v: Get = %+v; want %+v", s.now(), got, want)
	}
}

// plain returns r without the fields that only some answers have.
func plain(r weir.Result[int]) weir.Result[int] {
	return weir.Result[int]{
		Value: r.Value, Err: r.Err, State: r.State, Source: r.Source, Age: r.Age,
		Joined: r.Joined, Superseded: r.Superseded, Cause: r.Cause,
	}
}

// The most common Results.
func fresh(v int, age time.Duration) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateFresh, Source: weir.FromMemory, Age: age}
}

func stale(v int, age time.Duration) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateStale, Source: weir.FromMemory, Age: age}
}

func staleOnError(v int, age time.Duration, cause error) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateStaleOnError, Source: weir.FromMemory, Age: age, Cause: cause}
}

func loaded(v int) weir.Result[int] {
	return weir.Result[int]{Value: v, State: weir.StateLoaded, Source: weir.FromLoad}
}

func failure(err error) weir.Result[int] { return weir.Result[int]{Err: err} }

func joined(r weir.Result[int]) weir.Result[int] {
	r.Joined = true
	return r
}

func superseded(r weir.Result[int]) weir.Result[int] {
	r.Superseded = true
	return r
}

var errDry = errors.New("the source is down")

const sec = time.Second

// A gate is a limiter that admits all callers, or none.
type gate struct {
	shut atomic.Bool
	out  atomic.Int64 // permits that have not been released
}

func (g *gate) Acquire(context.Context) (limit.Permit, error) {
	if g.shut.Load() {
		return limit.Permit{}, &limit.Error{Limiter: "gate", Reason: limit.RateExceeded, RetryAfter: time.Second}
	}
	g.out.Add(1)
	return limit.NewPermit(func(limit.Outcome) { g.out.Add(-1) }), nil
}

// springKeys returns n keys.
func springKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = "k" + strconv.Itoa(i)
	}
	return keys
}

// heap returns the number of heap bytes in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
