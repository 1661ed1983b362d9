package flighttest

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/weir-go/weir/flight"
)

type (
	pair  struct{ tenant, user string }
	named string
	point struct{ x, y float64 }
)

// keyRows are the keys of concurrent calls, and how many loads those start.
var keyRows = []struct {
	name string
	want int
	keys []any
}{
	{"structs that print alike", 2, []any{pair{"a b", "c"}, pair{"a", "b c"}, pair{"a b", "c"}}},
	{"arrays", 2, []any{[2]string{"a", ""}, [2]string{"", "a"}, [2]string{"a", ""}}},
	{"types", 6, []any{1, int64(1), "1", named("1"), pair{"a", "b"}, pair{"a", "b"}, 1, nil, nil}},
	{"pointers", 2, []any{&pointed[0], &pointed[1], &pointed[0]}},
	{"floats", 2, []any{0.0, math.Copysign(0, -1), math.Inf(1)}},
}

var pointed = [2]int{1, 1}

var keyCases = []testCase{
	{name: "F7KeysAreComparedNotPrinted", tell: func(s *story) {
		if a, b := keyRows[0].keys[0], keyRows[0].keys[1]; fmt.Sprint(a) != fmt.Sprint(b) {
			s.Fatalf("%v and %v print differently, so this case tests nothing", a, b)
		}
		for _, row := range keyRows {
			var answers []*answer
			loads := 0
			for _, key := range row.keys {
				a := s.ask(s.Context(), key, deaf(ms, len(answers)))
				answers = append(answers, a)
			}
			s.wantJoinable(row.want)
			for i, a := range answers {
				<-a.done
				if !a.joined {
					loads++
				}
				if a.err != nil || row.keys[a.value] != row.keys[i] {
					s.Errorf("%s: key %#v: %d, %v; want the load of an equal key", row.name, row.keys[i], a.value, a.err)
				}
			}
			if loads != row.want {
				s.Errorf("%s: %d loads; want %d", row.name, loads, row.want)
			}
		}
	}},
	{name: "F7KeyUnequalToItself", tell: func(s *story) {
		for _, key := range []any{math.NaN(), point{1, math.NaN()}, [1]float64{math.NaN()}, complex(0, math.NaN())} {
			if v, _, err := s.Do(s.Context(), key, s.unwanted); v != 0 || err != flight.ErrKey {
				s.Errorf("Do(%v) = %d, %v; want 0, ErrKey", key, v, err)
			}
		}
		s.wantJoinable(0)
	}},
	// Comparing a slice in an interface with == panics, and so does its use as a map
	// key. The caller gets the panic, and the Group stays usable.
	{name: "F7IncomparableKeyPanicsInTheCaller", tell: func(s *story) {
		func() {
			defer func() {
				if _, ok := recover().(runtime.Error); !ok {
					s.Error("Do did not panic")
				}
			}()
			_, _, _ = s.Do(s.Context(), []int{1}, s.unwanted)
		}()
		s.want(s.ask(s.Context(), "k", deaf(time.Second, 42)), 42, nil, time.Second)
	}},
}

var contextCases = []testCase{
	{name: "F1LoadCarriesTheFirstCallersValues", tell: func(s *story) {
		first := context.WithValue(s.until(time.Second), tag{}, "first")
		second := context.WithValue(s.Context(), tag{}, "second")
		s.ask(first, "k", func(ctx context.Context) (int, error) {
			if deadline, ok := ctx.Deadline(); ok {
				s.Errorf("Deadline() = %v; want none", deadline)
			}
			time.Sleep(2 * time.Second) // the first caller has left, the second has not
			if v := ctx.Value(tag{}); v != "first" {
				s.Errorf("Value() = %v; want first", v)
			}
			if ctx.Err() != nil || context.Cause(ctx) != nil {
				s.Errorf("Err, Cause = %v, %v; want nil: only the first caller has left", ctx.Err(), context.Cause(ctx))
			}
			return 42, nil
		})
		s.want(s.ask(second, "k", s.unwanted), 42, nil, 2*time.Second)
	}},
	{name: "F1ContextEndsWithTheLoad", tell: func(s *story) {
		var kept context.Context
		s.want(s.ask(s.Context(), "k", func(ctx context.Context) (int, error) {
			kept = ctx
			return 42, nil
		}), 42, nil, 0)
		s.at(ms)
		if kept.Err() != context.Canceled {
			s.Errorf("Err() after the load = %v; want Canceled", kept.Err())
		}
	}},
}
