package weirtest_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirtest"
)

var (
	errDown = errors.New("down")
	errGone = errors.New("gone")
)

// newGuard returns a Guard that is closed at the end of the test.
func newGuard(t *testing.T, s weir.Source[string, int], o weir.Options) *weir.Guard[string, int] {
	t.Helper()
	g, err := weir.NewFrom(s, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g
}

// loads checks the result of a load of key.
func loads(t *testing.T, l *weirtest.Loader[string, int], key string, want int, wantErr error) {
	t.Helper()
	if v, err := l.Load(t.Context(), key); v != want || !errors.Is(err, wantErr) {
		t.Errorf("Load(%q) = %d, %v; want %d, %v", key, v, err, want, wantErr)
	}
}

// M3: loads take the answers of a script in turn, and the last one repeatedly.
func TestScriptAnswersInTurnAndTheLastStays(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.On("a").Fail(errDown).Return(1).ReturnEntry(weir.Entry[int]{Value: 2})
	loads(t, &l, "a", 0, errDown)
	loads(t, &l, "a", 1, nil)
	loads(t, &l, "a", 2, nil)
	loads(t, &l, "a", 2, nil)

	l.On("a").Return(3)
	loads(t, &l, "a", 3, nil)
}

func TestScriptOfTheKeyThenOfAnyThenFunc(t *testing.T) {
	l := weirtest.Loader[string, int]{
		Func: func(_ context.Context, key string) (int, error) { return len(key), nil },
	}
	l.On("own").Return(-1)
	l.OnAny().Fail(errDown).Return(7).Default()
	loads(t, &l, "own", -1, nil)
	loads(t, &l, "x", 0, errDown)
	loads(t, &l, "yy", 7, nil) // one sequence for all keys
	loads(t, &l, "zzz", 3, nil)
	loads(t, &l, "zzzz", 4, nil)

	l.On("own")
	l.OnAny()
	loads(t, &l, "own", 3, nil) // an empty script has no effect
}

func TestZeroLoaderFails(t *testing.T) {
	var l weirtest.Loader[string, int]
	loads(t, &l, "a", 0, weirtest.ErrUnscripted)
	if _, err := l.Load(t.Context(), "a"); err.Error() != "weirtest: no answer for the key a" {
		t.Errorf("err = %q", err)
	}
}

// M3: a Guard survives a load that panics or exits.
func TestScriptPanicAndGoexit(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.On("a").Panic("boom").Goexit()
	g := newGuard(t, weir.Source[string, int]{Load: l.Load}, weir.Options{})

	var p *weir.PanicError
	if _, err := g.Get(t.Context(), "a"); !errors.As(err, &p) || p.Value != "boom" {
		t.Errorf("Get = %v; want a PanicError of boom", err)
	}
	if _, err := g.Get(t.Context(), "a"); err != weir.ErrGoexit {
		t.Errorf("Get = %v; want ErrGoexit", err)
	}
	if n := l.Running(); n != 0 {
		t.Errorf("Running = %d; want 0", n)
	}
}

// M3: blocking and releasing need no sleep outside a bubble either.
func TestBlockAndRelease(t *testing.T) {
	l := weirtest.Loader[string, int]{
		Func: func(_ context.Context, key string) (int, error) { return len(key), nil },
	}
	tests := []struct {
		name  string
		block func()
		free  func()
	}{
		{"a key", func() { l.Block("a") }, func() { l.Release("a") }},
		{"a key, all released", func() { l.Block("a") }, func() { l.Release() }},
		{"all", func() { l.Block() }, func() { l.Release() }},
		{"all, the key released", func() { l.Block() }, func() { l.Release("a") }},
		{"all but one, which is blocked again", func() { l.Block(); l.Release("a"); l.Block("a") }, func() { l.Release("a") }},
	}
	for i, tt := range tests {
		tt.block()
		result := make(chan int)
		go func() {
			v, _ := l.Load(t.Context(), "a")
			result <- v
		}()
		c := l.Started(t, "a")
		select {
		case <-c.Done():
			t.Errorf("%s: the load did not wait", tt.name)
		default:
		}
		if n := l.Running(); n != 1 {
			t.Errorf("%s: Running = %d; want 1", tt.name, n)
		}
		tt.free()
		if v := <-result; v != 1 {
			t.Errorf("%s: Load = %d; want 1", tt.name, v)
		}
		<-c.Done()
		if n := l.Count("a"); n != i+1 {
			t.Errorf("%s: Count = %d; want %d", tt.name, n, i+1)
		}
		l.Release()
	}
}

func TestHeldLoadLeavesWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		l.Block()
		ctx, cancel := context.WithCancelCause(t.Context())
		var err error
		go func() { _, err = l.Load(ctx, "a") }()
		c := l.Started(t, "a")
		if got := c.Cause(); got != nil {
			t.Errorf("Cause while the load is held = %v; want nil", got)
		}
		cancel(errGone)
		<-c.Done()
		synctest.Wait()
		if err != errGone || c.Cause() != errGone {
			t.Errorf("Load = %v, Cause = %v; want %v", err, c.Cause(), errGone)
		}
		c.Return(1) // too late, has no effect
	})
}

// M3: a load that ignores its context.
func TestIgnoreContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		l.Block()
		l.IgnoreContext("hung")
		g := newGuard(t, weir.Source[string, int]{Load: l.Load}, weir.Options{LoadTimeout: time.Second})

		start := time.Now()
		_, err := g.Get(t.Context(), "hung")
		var timeout *weir.TimeoutError
		if !errors.As(err, &timeout) || time.Since(start) != time.Second {
			t.Errorf("Get = %v after %v; want a TimeoutError after 1s", err, time.Since(start))
		}
		synctest.Wait()
		if s := g.Stats(); s.Stuck != 1 {
			t.Errorf("Stuck = %d; want 1", s.Stuck)
		}
		c := l.Started(t, "hung")
		c.Release()
		<-c.Done()
		if !errors.As(c.Cause(), &timeout) {
			t.Errorf("Cause = %v; want a TimeoutError", c.Cause())
		}
		synctest.Wait()
		if s := g.Stats(); s.Stuck != 0 {
			t.Errorf("Stuck = %d; want 0", s.Stuck)
		}
	})
}

func TestCallIsAnsweredByHand(t *testing.T) {
	tests := []struct {
		name   string
		answer func(*weirtest.Call[string, int])
		want   int
		err    error
	}{
		{"release", func(c *weirtest.Call[string, int]) { c.Release() }, 9, nil},
		{"return", func(c *weirtest.Call[string, int]) { c.Return(1) }, 1, nil},
		{"entry", func(c *weirtest.Call[string, int]) { c.ReturnEntry(weir.Entry[int]{Value: 2}) }, 2, nil},
		{"fail", func(c *weirtest.Call[string, int]) { c.Fail(errDown) }, 0, errDown},
		{"panic", func(c *weirtest.Call[string, int]) { c.Panic(errGone) }, 0, errGone},
		{"goexit", func(c *weirtest.Call[string, int]) { c.Goexit() }, 0, weir.ErrGoexit},
		{"the first answer counts", func(c *weirtest.Call[string, int]) { c.Return(3); c.Fail(errDown) }, 3, nil},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			var l weirtest.Loader[string, int]
			l.OnAny().Return(9)
			l.Block()
			g := newGuard(t, weir.Source[string, int]{Load: l.Load}, weir.Options{})
			go func() { tt.answer(l.Started(t, "a")) }()
			v, err := g.Get(t.Context(), "a")
			var p *weir.PanicError
			if errors.As(err, &p) {
				err, _ = p.Value.(error)
			}
			if v != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%s: Get = %d, %v; want %d, %v", tt.name, v, err, tt.want, tt.err)
			}
		})
	}
}

// When two loads of one key are in flight, Started returns one after the other.
func TestStartedReturnsEachLoadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		l.Block()
		g := newGuard(t, weir.Source[string, int]{Load: l.Load}, weir.Options{TTL: time.Minute})
		var before, after int
		go func() { before, _ = g.Get(t.Context(), "a") }()
		first := l.Started(t, "a")
		if err := g.Invalidate(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		go func() { after, _ = g.Get(t.Context(), "a") }()
		second := l.Started(t, "a")

		second.Return(2)
		<-second.Done()
		first.Return(1)
		synctest.Wait()
		if before != 1 || after != 2 {
			t.Errorf("before = %d, after = %d; want 1, 2", before, after)
		}
		if v, err := g.Get(t.Context(), "a"); v != 2 || err != nil {
			t.Errorf("Get = %d, %v; want 2, because the first load was superseded", v, err)
		}
		if got := l.Calls(); !slices.Equal(got, []*weirtest.Call[string, int]{first, second}) {
			t.Errorf("Calls = %v; want the two loads in order", got)
		}
	})
}

func TestStartedReturnsLoadsThatHaveEndedSince(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.OnAny().Return(1)
	for range 3 {
		loads(t, &l, "a", 1, nil)
	}
	for i, want := range l.Calls() {
		if l.Started(t, "a") != want {
			t.Errorf("Started did not return load %d; want the loads in the order in which they began", i)
		}
	}
}

func TestMostRunning(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.OnAny().Return(1)
	l.Block()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { l.Load(t.Context(), "a") })
	}
	for range 3 {
		l.Started(t, "a")
	}
	l.Release()
	wg.Wait()
	loads(t, &l, "a", 1, nil)
	if n, running, most := l.Total(), l.Running(), l.MostRunning(); n != 4 || running != 0 || most != 3 {
		t.Errorf("Total = %d, Running = %d, MostRunning = %d; want 4, 0, 3", n, running, most)
	}
}

// A Guard ends the context of each load that has returned. Cause does not report that.
func TestCauseIsThatOfTheLoadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		l.OnAny().Return(1)
		g := newGuard(t, weir.Source[string, int]{Load: l.Load}, weir.Options{})
		g.Get(t.Context(), "a")
		synctest.Wait()
		c := l.Calls()[0]
		if c.Context().Err() == nil || c.Cause() != nil {
			t.Errorf("Context = %v, Cause = %v; want an ended context and no cause", c.Context().Err(), c.Cause())
		}
	})
}

func TestLoadThatIsNotHeldIgnoresItsContext(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.OnAny().Return(1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // select picks either case
		if v, err := l.Load(ctx, "a"); v != 1 || err != nil {
			t.Fatalf("Load = %d, %v; want 1, nil", v, err)
		}
	}
}

func TestReleaseOfOneKeyLeavesTheOthersHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		l.OnAny().Return(1)
		l.Block("a", "b")
		go l.Load(t.Context(), "a")
		go l.Load(t.Context(), "b")
		go l.LoadMany(t.Context(), []string{"a", "b"})
		l.Started(t, "a")
		l.Started(t, "b")
		synctest.Wait()
		l.Release("a")
		synctest.Wait()
		if n := l.Running(); n != 2 {
			t.Errorf("Running = %d; want 2: the load of b and the load of both keys", n)
		}
		l.Release("b")
		synctest.Wait()
		if n := l.Running(); n != 0 {
			t.Errorf("Running = %d; want 0", n)
		}
	})
}

// A load that begins while a Next gives up is returned by it or by a later Next.
func TestNextLosesNoLoad(t *testing.T) {
	var l weirtest.Loader[int, int]
	l.OnAny().Return(1)
	for key := range 2000 {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan *weirtest.Call[int, int])
		go func() {
			c, _ := l.Next(ctx, key)
			got <- c
		}()
		runtime.Gosched()
		cancel()
		l.Load(t.Context(), key)
		if c := <-got; c == nil {
			l.Started(t, key)
		}
	}
}

func TestNextLeavesAtTheEndOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
		defer cancel()
		if c, err := l.Next(ctx, "a"); c != nil || err != errGone {
			t.Errorf("Next = %v, %v; want nil, %v", c, err, errGone)
		}
		l.OnAny().Return(1)
		loads(t, &l, "a", 1, nil) // not delivered to the Next that gave up
		if c, err := l.Next(t.Context(), "a"); c == nil || err != nil {
			t.Errorf("Next = %v, %v; want the load", c, err)
		}
	})
}

// fatal is a testing.TB that records the format of Fatalf.
type fatal struct {
	testing.TB
	msg string
}

func (f *fatal) Helper()                        {}
func (f *fatal) Fatalf(format string, _ ...any) { f.msg = format }

func TestStartedFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		f := &fatal{}
		start := time.Now()
		l.Started(f, "a")
		if f.msg == "" || time.Since(start) != time.Minute {
			t.Errorf("Fatalf(%q) after %v; want a message after 1m", f.msg, time.Since(start))
		}
	})
}

func TestLoadEntryIsToldThePreviousValue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		l.On("a").ReturnEntry(weir.Entry[int]{Value: 1, Version: "v1"}).ReturnEntry(weir.Entry[int]{NotModified: true})
		g := newGuard(t, weir.Source[string, int]{LoadEntry: l.LoadEntry}, weir.Options{TTL: time.Minute})
		for range 2 {
			if v, err := g.Get(t.Context(), "a"); v != 1 || err != nil {
				t.Errorf("Get = %d, %v; want 1, nil", v, err)
			}
			time.Sleep(2 * time.Minute)
		}
		calls := l.Calls()
		if p := calls[0].Previous(); p.OK {
			t.Errorf("first Previous = %+v; want none", p)
		}
		if p := calls[1].Previous(); p != (weir.Previous[int]{OK: true, Value: 1, Version: "v1", Age: 2 * time.Minute}) {
			t.Errorf("second Previous = %+v; want 1, v1, 2m old", p)
		}
	})
}

func TestLoadMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l weirtest.Loader[string, int]
		l.On("a").Return(1)
		l.On("b").Fail(weir.ErrNotFound).Fail(errDown)
		l.Block("b")
		l.Release("a")
		g := newGuard(t, weir.Source[string, int]{LoadMany: l.LoadMany}, weir.Options{})

		results := make(chan map[string]weir.Result[int])
		ask := func() { results <- g.GetMany(t.Context(), []string{"a", "b"}) }
		go ask()
		c := l.Started(t, "b") // one blocked key holds the whole load
		if l.Started(t, "a") != c {
			t.Error("the keys have separate loads; want one for both")
		}
		if keys := c.Keys(); !slices.Equal(keys, []string{"a", "b"}) {
			t.Errorf("Keys = %q; want a, b", keys)
		}
		l.Release("b")
		if r := <-results; r["a"].Value != 1 || r["b"].Err != weir.ErrNotFound {
			t.Errorf("GetMany = %+v; want 1 and not found", r)
		}

		go ask()
		if r := <-results; r["a"].Value != 1 || r["b"].Err != errDown {
			t.Errorf("GetMany = %+v; want 1 and %v", r, errDown)
		}
		if l.Total() != 2 || l.Count("a") != 2 || l.Count("b") != 2 {
			t.Errorf("Total = %d, Count = %d and %d; want 2 of each", l.Total(), l.Count("a"), l.Count("b"))
		}
	})
}

func TestLoadManyLeavesOutWhatIsNotFound(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.On("a").Return(1)
	l.On("b").Fail(weir.ErrNotFound)
	keys := []string{"a", "b"}
	m, err := l.LoadMany(t.Context(), keys)
	if !maps.Equal(m, map[string]int{"a": 1}) || err != nil {
		t.Errorf("LoadMany = %v, %v; want a = 1 and no error", m, err)
	}
	clear(keys) // LoadMany must not keep them
	if got := l.Calls()[0].Keys(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("Keys = %q; want a, b", got)
	}
}

// Each key that fails has its own error, so that none gets the error of another.
func TestLoadManyNamesTheKeysThatFailed(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.On("a").Fail(errDown)
	l.On("b").Fail(errGone)
	l.On("c").Return(3)
	l.On("d").Fail(weir.ErrNotFound)
	m, err := l.LoadMany(t.Context(), []string{"a", "b", "c", "d"})
	own, ok := err.(weir.KeyErrors[string])
	if !maps.Equal(m, map[string]int{"c": 3}) || !ok || len(own) != 2 || own["a"] != errDown || own["b"] != errGone {
		t.Errorf("LoadMany = %v, %v; want c = 3, and the errors of a and b", m, err)
	}
}

// LoadEntries returns whole entries, and records the Previous of each key.
func TestLoadEntries(t *testing.T) {
	var l weirtest.Loader[string, int]
	l.On("a").ReturnEntry(weir.Entry[int]{Value: 1, Version: "v1", Tags: []string{"t"}})
	l.On("b").Return(2)
	l.On("c").Fail(errDown)
	g := newGuard(t, weir.Source[string, int]{LoadEntries: l.LoadEntries}, weir.Options{TTL: time.Hour})
	for range 2 {
		r := g.GetMany(t.Context(), []string{"a", "b", "c"})
		if r["a"].Value != 1 || r["b"].Value != 2 || r["c"].Err != errDown {
			t.Fatalf("GetMany = %+v; want 1, 2 and %v", r, errDown)
		}
		g.Expire(t.Context(), "a", "b")
	}
	c := l.Calls()[1]
	if a, b, none := c.PreviousOf("a"), c.PreviousOf("b"), c.PreviousOf("c"); a.Version != "v1" || !b.OK || b.Value != 2 || none.OK || c.PreviousOf("x").OK {
		t.Errorf("previous values %+v, %+v, %+v; want v1, 2 and none", a, b, none)
	}
	if c.Previous() != c.PreviousOf("a") {
		t.Errorf("Previous = %+v; want the one of the first key", c.Previous())
	}
	g.InvalidateTags(t.Context(), "t")
	if _, ok := g.Peek("a"); ok {
		t.Error("Peek(a) returned a value; want none after its tag was invalidated")
	}
}

func TestLoaderIsSafeForConcurrentUse(t *testing.T) {
	var l weirtest.Loader[int, int]
	l.OnAny().Return(1).Return(2)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() { l.Load(t.Context(), i%5) })
		wg.Go(func() { l.Started(t, i%5).Release() })
		wg.Go(func() { l.Block(i % 5); l.Release(); l.On(i % 5).Fail(errDown).Default() })
		wg.Go(func() { l.Count(i); l.Total(); l.Running(); l.MostRunning(); l.Calls() })
	}
	wg.Wait()
	if l.Total() != 50 || l.Running() != 0 {
		t.Errorf("Total = %d, Running = %d; want 50, 0", l.Total(), l.Running())
	}
}
