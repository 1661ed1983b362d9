package loads_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// F6: a load that panics with an error has not returned it. The panic matches nothing that
// it carries, is no not-found, and leaves the stale value where it is.
func TestF6_APanicIsNotTheErrorThatItCarries(t *testing.T) {
	for _, value := range []error{
		weir.ErrNotFound, fmt.Errorf("wrapped: %w", weir.ErrNotFound), context.Canceled, context.DeadlineExceeded, &limit.Error{Reason: limit.QueueFull},
		fs.ErrNotExist, weir.ErrAbandoned, errors.Join(weir.ErrNotFound, fs.ErrExist),
	} {
		t.Run(value.Error(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				panics := false
				g := weir.Must(weir.New(func(context.Context, string) (int, error) {
					if panics {
						panic(value)
					}
					return 1, nil
				}, weir.Options{TTL: time.Second, StaleIfError: time.Hour, NegativeTTL: time.Minute}))
				defer g.Close(t.Context())
				_, _ = g.Get(t.Context(), "k")
				panics = true
				_, err := g.Get(t.Context(), "another")
				var p *weir.PanicError
				if !errors.As(err, &p) || p.Value != value || errors.Is(err, value) || errors.Is(err, weir.ErrNotFound) || errors.As(err, new(*limit.Error)) {
					t.Errorf("the panic is %v; want a PanicError that matches nothing else", err)
				}
				time.Sleep(2 * time.Second)
				if r := g.GetResult(t.Context(), "k"); r.Err != nil || r.Value != 1 || r.State != weir.StateStaleOnError {
					t.Errorf("got %+v; want the stale value", r)
				}
				if st := g.Stats(); st.NotFound != 0 || st.Panics != 2 {
					t.Errorf("NotFound %d, Panics %d; want 0 and 2", st.NotFound, st.Panics)
				}
			})
		})
	}
}
