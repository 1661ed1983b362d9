package flight_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/flight"
)

type traceKey struct{}

// A family is a load's context and contexts derived from it.
type family struct {
	ctx      context.Context
	derived  map[string]context.Context
	cut      context.Context // WithoutCancel: does not end
	after    chan error      // receives the cause that context.AfterFunc saw
	children []context.CancelFunc
}

func newFamily(ctx context.Context) *family {
	f := &family{ctx: ctx, after: make(chan error, 1), cut: context.WithoutCancel(ctx)}
	child, cancel := context.WithCancel(ctx)
	late, stop := context.WithTimeout(child, time.Hour)
	value := context.WithValue(ctx, traceKey{}, "load")
	f.children = []context.CancelFunc{stop, cancel}
	f.derived = map[string]context.Context{"child": child, "grandchild": late, "value": value}
	context.AfterFunc(ctx, func() { f.after <- context.Cause(ctx) })
	return f
}

// want checks that all contexts of the family but cut have ended with cause.
func (f *family) want(t *testing.T, cause error) {
	t.Helper()
	synctest.Wait()
	if f.ctx.Err() != context.Canceled || context.Cause(f.ctx) != cause {
		t.Errorf("context: %v, %v; want Canceled, %v", f.ctx.Err(), context.Cause(f.ctx), cause)
	}
	for name, ctx := range f.derived {
		if ctx.Err() != context.Canceled || context.Cause(ctx) != cause {
			t.Errorf("%s: %v, %v; want Canceled, %v", name, ctx.Err(), context.Cause(ctx), cause)
		}
	}
	if f.cut.Err() != nil {
		t.Errorf("WithoutCancel: %v; want nil", f.cut.Err())
	}
	select {
	case err := <-f.after:
		if err != cause {
			t.Errorf("AfterFunc saw %v; want %v", err, cause)
		}
	default:
		t.Error("AfterFunc did not run")
	}
	for _, cancel := range f.children {
		cancel()
	}
}

func TestF1ContextEndsWithTheLoad(t *testing.T) {
	tell(t, func(s *story) {
		var f *family
		s.want(s.ask(s.Context(), "k", func(ctx context.Context) (int, error) {
			f = newFamily(ctx)
			time.Sleep(ms)
			return 42, f.derived["grandchild"].Err()
		}), 42, nil, ms)
		f.want(s.T, context.Canceled)
	})
}

func TestF3CauseReachesDerivedContexts(t *testing.T) {
	tell(t, func(s *story) {
		var f *family
		s.ask(s.until(ms), "k", func(ctx context.Context) (int, error) {
			f = newFamily(ctx)
			<-f.derived["grandchild"].Done()
			return 0, ctx.Err()
		})
		s.at(ms)
		f.want(s.T, flight.ErrAbandoned)
	})
}

func TestF1DerivedContextsStartNoGoroutine(t *testing.T) {
	tell(t, func(s *story) {
		s.Do(s.Context(), "k", func(ctx context.Context) (int, error) {
			before := runtime.NumGoroutine()
			for range 1000 {
				child, cancel := context.WithCancel(ctx)
				defer cancel()
				_, stop := context.WithTimeout(child, time.Hour)
				defer stop()
				defer context.AfterFunc(ctx, func() {})()
			}
			if n := runtime.NumGoroutine() - before; n > 100 {
				s.Errorf("3000 derived contexts started %d goroutines; want none", n)
			}
			return 0, nil
		})
	})
}

// Mocks and loggers print the contexts they receive. Printing must not read fields that
// joiners write; the race detector would report it.
func TestContextMayBePrinted(t *testing.T) {
	tell(t, func(s *story) {
		result := s.DoChan(s.Context(), "k", func(ctx context.Context) (int, error) {
			for range 100 {
				got := fmt.Sprintf("%v, %+v", ctx, context.WithoutCancel(ctx))
				if want := "weir.load, weir.load.WithoutCancel"; got != want {
					s.Errorf("printed %.200q; want %q", got, want)
				}
			}
			time.Sleep(ms)
			return 0, nil
		})
		for range 100 {
			s.DoChan(s.Context(), "k", s.unwanted)
		}
		if r := <-result; r.Joiners != 101 {
			s.Errorf("Joiners = %d; want 101", r.Joiners)
		}
	})
}
