package loads_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/batch"
	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// A tardy context has a Done that is closed before Err says why, as that of merged contexts
// may be.
type tardy struct {
	context.Context
	done chan struct{}
}

func (c tardy) Done() <-chan struct{} { return c.done }
func (c tardy) Err() error            { return nil }

// F2, B1: a caller whose context ends leaves with an error, also while the context does not say
// why yet. It never gets a permit, a value or a success that there is not.
func TestF2_AContextMayEndBeforeItsErr(t *testing.T) {
	never := func(ctx context.Context, _ string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	rows := map[string]func(t *testing.T, ctx context.Context) error{
		"Guard.Get": func(t *testing.T, ctx context.Context) error {
			g, err := weir.New(never, weir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := g.Close(context.Background()); err != nil {
					t.Errorf("Close = %v", err)
				}
			}()
			_, err = g.Get(ctx, "k")
			return err
		},
		"Guard.GetMany": func(t *testing.T, ctx context.Context) error {
			g, err := weir.New(never, weir.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := g.Close(context.Background()); err != nil {
					t.Errorf("Close = %v", err)
				}
			}()
			all := g.GetMany(ctx, []string{"k", "l"})
			return errors.Join(all["k"].Err, all["l"].Err)
		},
		"flight.Group": func(_ *testing.T, ctx context.Context) error {
			var g flight.Group[string, string]
			_, err := g.Do(ctx, "k", func(ctx context.Context) (string, error) { return never(ctx, "") })
			return err
		},
		"limit.Concurrency": func(t *testing.T, ctx context.Context) error {
			l, err := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: 1, MaxWait: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			p, err := l.Acquire(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			defer p.Release(limit.Success)
			_, err = l.Acquire(ctx)
			return err
		},
		"limit.RateLimiter": func(t *testing.T, ctx context.Context) error {
			l, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 0.001, Burst: 1, Queue: 1, MaxWait: 2 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Acquire(context.Background()); err != nil {
				t.Fatal(err)
			}
			_, err = l.Acquire(ctx)
			return err
		},
		"batch.Batcher": func(t *testing.T, ctx context.Context) error {
			b, err := batch.New(func(ctx context.Context, items []string) ([]string, error) {
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}, batch.Options{Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Do(ctx, "item")
			if err := b.Close(context.Background()); err != nil {
				t.Errorf("Close = %v", err)
			}
			return err
		},
		"weirhttp.StatedLimits": func(t *testing.T, ctx context.Context) error {
			l := weirhttp.NewStatedLimits(weirhttp.StatedLimitsOptions{MaxWait: time.Hour})
			l.Observe(http.StatusTooManyRequests, http.Header{"Retry-After": {"600"}})
			_, err := l.Acquire(ctx)
			return err
		},
	}
	for name, call := range rows {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := tardy{t.Context(), make(chan struct{})}
				time.AfterFunc(time.Second, func() { close(ctx.done) })
				if err := call(t, ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("%v; want context.Canceled", err)
				}
			})
		})
	}
}
