package loads_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// values are errors that mean something to a Guard or to its callers.
var values = map[string]error{
	"not found":     weir.ErrNotFound,
	"wrapped":       fmt.Errorf("row 7: %w", weir.ErrNotFound),
	"limited":       &limit.Error{Reason: limit.QueueFull, RetryAfter: time.Second},
	"canceled":      context.Canceled,
	"closed":        weir.ErrClosed,
	"timeout":       &weir.TimeoutError{After: time.Second},
	"its own kind":  &weir.PanicError{Value: weir.ErrNotFound, Stack: debug.Stack()},
	"with a stack":  fmt.Errorf("boom\n\n%s", debug.Stack()),
	"of many parts": errors.Join(weir.ErrNotFound, limit.ErrLimited),
}

// A panic with an error is a panic: nothing takes it for that error, and its text has no
// stack.
func TestF6_APanicIsNotTheErrorItPanickedWith(t *testing.T) {
	for name, value := range values {
		t.Run(name, func(t *testing.T) {
			loads, fine := 0, true
			g, err := weir.New(func(context.Context, string) (int, error) {
				if loads++; fine {
					return 1, nil
				}
				panic(value)
			}, weir.Options{TTL: time.Minute, NegativeTTL: time.Minute, StaleIfError: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close(context.Background())
			if v, err := g.Get(t.Context(), "k"); v != 1 || err != nil {
				t.Fatalf("Get = %d, %v; want 1", v, err)
			}
			fine = false
			_ = g.Expire(t.Context(), "k")
			if r := g.GetResult(t.Context(), "k"); r.Value != 1 || r.Err != nil || r.State != weir.StateStaleOnError {
				t.Errorf("GetResult after a panic = %+v; want the stale value", r)
			}
			loads = 0
			for range 2 {
				_, err = g.Get(t.Context(), "other")
				var p *weir.PanicError
				if !errors.As(err, &p) || fmt.Sprint(p.Value) != fmt.Sprint(value) {
					t.Fatalf("Get = %v; want the panic", err)
				}
				for other, is := range values {
					if errors.Is(err, is) {
						t.Errorf("the panic matches %q", other)
					}
				}
				if errors.Is(err, limit.ErrLimited) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*limit.Error)) || errors.As(err, new(*weir.TimeoutError)) {
					t.Errorf("the panic matches what it carries: %v", err)
				}
				if text := fmt.Sprintf("%v %+v %s", err, err, err.Error()); strings.Contains(text, "goroutine ") || strings.Contains(text, ".go:") {
					t.Errorf("the text of the panic has a stack: %q", text)
				}
				if !strings.Contains(string(p.Stack), "panic_value_test.go") {
					t.Errorf("Stack = %q; want that of the panic", p.Stack)
				}
			}
			if loads != 2 {
				t.Errorf("%d loads for two calls; want 2: a panic is no negative entry", loads)
			}
		})
	}
}
