package flight_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

// loads calls Do for all keys at once, and returns how many loads there were.
func loads[K comparable](t *testing.T, keys ...K) int {
	t.Helper()
	var n atomic.Int32
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[K, K]
		var wg sync.WaitGroup
		defer wg.Wait()
		for _, key := range keys {
			wg.Go(func() {
				got, err := g.Do(t.Context(), key, func(context.Context) (K, error) {
					n.Add(1)
					time.Sleep(ms)
					return key, nil
				})
				if got != key || err != nil {
					t.Errorf("Do(%#v) = %#v, %v; want the key, nil", key, got, err)
				}
			})
		}
		synctest.Wait()
		if g.Len() != int(n.Load()) {
			t.Errorf("Len() = %d; want %d", g.Len(), n.Load())
		}
	})
	return int(n.Load())
}

func TestF7KeysAreComparedNotPrinted(t *testing.T) {
	type pair struct{ tenant, user string }
	type named string
	a, b := pair{"a b", "c"}, pair{"a", "b c"}
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Fatalf("%v and %v print differently: the test proves nothing", a, b)
	}
	one, other := 1, 1
	for name, row := range map[string]struct{ got, want int }{
		"structs that print alike": {loads(t, a, b, pair{"a b", "c"}), 2},
		"arrays":                   {loads(t, [2]string{"a", ""}, [2]string{"", "a"}, [2]string{"a", ""}), 2},
		"interfaces":               {loads[any](t, 1, int64(1), "1", named("1"), a, a, 1, nil, nil), 6},
		"pointers":                 {loads(t, &one, &other, &one), 2},
		"floats":                   {loads(t, 0.0, math.Copysign(0, -1), math.Inf(1)), 2},
	} {
		if row.got != row.want {
			t.Errorf("%s: %d loads; want %d", name, row.got, row.want)
		}
	}
}

// refuses reports what Do, DoResult and DoChan make of a key that cannot be
// found again.
func refuses[K comparable](t *testing.T, key K) {
	t.Helper()
	var g flight.Group[K, int]
	fn := func(context.Context) (int, error) {
		t.Errorf("Do(%v) ran its load", key)
		return 1, nil
	}
	if v, err := g.Do(t.Context(), key, fn); v != 0 || err != flight.ErrKey {
		t.Errorf("Do(%v) = %d, %v; want 0, ErrKey", key, v, err)
	}
	if r := g.DoResult(t.Context(), key, fn); r != (flight.Result[int]{Err: flight.ErrKey}) {
		t.Errorf("DoResult(%v) = %+v; want ErrKey", key, r)
	}
	if r := <-g.DoChan(t.Context(), key, fn); r != (flight.Result[int]{Err: flight.ErrKey}) {
		t.Errorf("DoChan(%v): %+v; want ErrKey", key, r)
	}
	g.Forget(key)
	if g.Len() != 0 {
		t.Errorf("Len() = %d after Do(%v); want 0", g.Len(), key)
	}
}

func TestF7KeyUnequalToItself(t *testing.T) {
	type point struct{ x, y float64 }
	refuses(t, math.NaN())
	refuses(t, point{1, math.NaN()})
	refuses(t, [1]float64{math.NaN()})
	refuses(t, complex(0, math.NaN()))
	refuses[any](t, math.NaN())
	refuses[any](t, point{math.NaN(), 1})
}

// A slice in an interface is a mistake that == punishes by a panic. It comes
// in the caller, and leaves the Group whole.
func TestF7IncomparableKeyPanicsInTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g flight.Group[any, int]
		panics := func(name string, f func()) {
			defer func() {
				if _, ok := recover().(runtime.Error); !ok {
					t.Errorf("%s did not panic", name)
				}
			}()
			f()
		}
		panics("Do", func() { g.Do(t.Context(), []int{1}, deaf(ms, 1)) })
		panics("DoChan", func() { g.DoChan(t.Context(), []int{1}, deaf(ms, 1)) })
		panics("Forget", func() { g.Forget([]int{1}) })
		if v, err := g.Do(t.Context(), "k", deaf(ms, 42)); v != 42 || err != nil {
			t.Errorf("Do = %d, %v; want 42, nil", v, err)
		}
	})
}
