package fromsingleflight

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sync/singleflight"

	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/flight/compat"
)

// plainResult has the fields of both Result types.
type plainResult = struct {
	Val    any
	Err    error
	Shared bool
}

// A group is the API of singleflight.
type group[R ~plainResult] interface {
	Do(key string, fn func() (any, error)) (v any, err error, shared bool)
	DoChan(key string, fn func() (any, error)) <-chan R
	Forget(key string)
}

var (
	_ group[singleflight.Result] = (*singleflight.Group)(nil)
	_ group[compat.Result]       = (*compat.Group)(nil)
)

// The same tests run against singleflight and compat.
func TestCompat(t *testing.T) {
	t.Run("singleflight", func(t *testing.T) {
		suite(t, func() group[singleflight.Result] { return new(singleflight.Group) })
	})
	t.Run("compat", func(t *testing.T) {
		suite(t, func() group[compat.Result] { return new(compat.Group) })
	})
}

func TestCompatHasNoMoreMethods(t *testing.T) {
	want, got := reflect.TypeFor[*singleflight.Group](), reflect.TypeFor[*compat.Group]()
	if got.NumMethod() != want.NumMethod() {
		t.Errorf("compat.Group has %d methods; want singleflight's %d", got.NumMethod(), want.NumMethod())
	}
}

func suite[R ~plainResult](t *testing.T, open func() group[R]) {
	tests := []struct {
		name string
		run  func(t *testing.T, g group[R])
	}{
		{"value", testValue[R]},
		{"error", testError[R]},
		{"shared", testShared[R]},
		{"channel", testChannel[R]},
		{"forget", testForget[R]},
		{"panic", testPanic[R]},
		{"goexit", testGoexit[R]},
		{"nested errors", testNestedErrors[R]},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tt.run(t, open()) })
		})
	}
}

func testValue[R ~plainResult](t *testing.T, g group[R]) {
	v, err, shared := g.Do("k", func() (any, error) { return 42, nil })
	if v != 42 || err != nil || shared {
		t.Errorf("Do = %v, %v, %t; want 42, nil, false", v, err, shared)
	}
}

func testError[R ~plainResult](t *testing.T, g group[R]) {
	want := errors.New("no luck")
	v, err, _ := g.Do("k", func() (any, error) { return "half", want })
	if v != "half" || err != want {
		t.Errorf("Do = %v, %v; want both results of fn", v, err)
	}
}

func testShared[R ~plainResult](t *testing.T, g group[R]) {
	var wg sync.WaitGroup
	release, runs := make(chan bool), 0
	for range 10 {
		wg.Go(func() {
			v, err, shared := g.Do("k", func() (any, error) {
				runs++
				<-release
				return 42, nil
			})
			if v != 42 || err != nil || !shared {
				t.Errorf("Do = %v, %v, %t; want 42, nil, true", v, err, shared)
			}
		})
	}
	synctest.Wait()
	close(release)
	wg.Wait()
	if runs != 1 {
		t.Errorf("fn ran %d times; want 1", runs)
	}
}

func testChannel[R ~plainResult](t *testing.T, g group[R]) {
	release := make(chan bool)
	fn := func() (any, error) {
		<-release
		return 42, nil
	}
	a, b := g.DoChan("k", fn), g.DoChan("k", fn)
	synctest.Wait()
	close(release)
	for _, ch := range []<-chan R{a, b} {
		if got := plainResult(<-ch); got.Val != 42 || got.Err != nil || !got.Shared {
			t.Errorf("result %+v; want 42, nil, true", got)
		}
		synctest.Wait()
		select {
		case r, ok := <-ch:
			t.Errorf("the channel sent %v, %t after its result; want nothing", r, ok)
		default:
		}
	}
}

func testForget[R ~plainResult](t *testing.T, g group[R]) {
	release := make(chan bool)
	old := g.DoChan("k", func() (any, error) {
		<-release
		return "old", nil
	})
	g.Forget("k")
	again := g.DoChan("k", func() (any, error) {
		<-release
		return "new", nil
	})
	joined := g.DoChan("k", func() (any, error) { return "third", nil })
	synctest.Wait()
	close(release)
	for want, ch := range map[any]<-chan R{"old": old, "new": again} {
		if got := plainResult(<-ch); got.Val != want || got.Shared != (want == "new") {
			t.Errorf("result %+v; want %v", got, want)
		}
	}
	if got := plainResult(<-joined); got.Val != "new" {
		t.Errorf("a later caller got %v; want new", got.Val)
	}
}

// The panic reaches every caller of Do, as an error with the value and the stack. That of
// x/sync wraps the value and prints the stack; that of flight has both in fields.
func testPanic[R ~plainResult](t *testing.T, g group[R]) {
	cause := errors.New("nil map")
	release := make(chan bool)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			defer func() {
				err, ok := recover().(error)
				has := ok && errors.Is(err, cause) && strings.Contains(err.Error(), "testPanic")
				var p *flight.PanicError
				if errors.As(err, &p) {
					has = p.Value == cause && strings.Contains(string(p.Stack), "testPanic")
				}
				if !has {
					t.Errorf("a caller recovered %v; want an error with the cause and the stack", err)
				}
			}()
			g.Do("k", func() (any, error) {
				<-release
				panic(cause)
			})
			t.Error("Do returned; want a panic")
		})
	}
	synctest.Wait()
	close(release)
	wg.Wait()
	testValue(t, g) // the Group still works
}

// runtime.Goexit in fn ends every caller of Do.
func testGoexit[R ~plainResult](t *testing.T, g group[R]) {
	release := make(chan bool)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			g.Do("k", func() (any, error) {
				<-release
				runtime.Goexit()
				return nil, nil
			})
			t.Error("Do returned; want the goroutine to exit")
		})
	}
	synctest.Wait()
	close(release)
	wg.Wait()
	testValue(t, g)
}

// Any error of fn is a result, even one that another Group returned to it.
func testNestedErrors[R ~plainResult](t *testing.T, g group[R]) {
	for _, want := range []error{flight.ErrGoexit, &flight.PanicError{Value: "elsewhere"}} {
		if _, err, _ := g.Do("k", func() (any, error) { return nil, want }); err != want {
			t.Errorf("Do = %v; want %v", err, want)
		}
		r := plainResult(<-g.DoChan("k", func() (any, error) { return nil, want }))
		if r.Err != want {
			t.Errorf("DoChan = %v; want %v", r.Err, want)
		}
	}
}
