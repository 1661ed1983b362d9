package flights_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/flight/flighttest"
	"github.com/weir-go/weir/internal/contract/rig"
)

// loadKey is the context key of the function that a call brings along: a Guard
// has one load function, and a load sees its first caller's values.
type loadKey struct{}

func TestConformance(t *testing.T) {
	type guard = weir.Guard[any, int]
	source := weir.Source[any, int]{
		Load: func(ctx context.Context, _ any) (int, error) {
			return ctx.Value(loadKey{}).(flighttest.Load)(ctx)
		},
		KeyString: func(key any) string { return fmt.Sprintf("%#v", key) },
	}
	for way, call := range map[string]func(*guard, context.Context, any) weir.Result[int]{
		"GetResult": (*guard).GetResult,
		"Refresh":   (*guard).RefreshResult,
		"GetMany": func(g *guard, ctx context.Context, key any) weir.Result[int] {
			for _, r := range g.GetMany(ctx, []any{key}) {
				return r // the key may not be equal to itself
			}
			return weir.Result[int]{}
		},
	} {
		t.Run(way, func(t *testing.T) {
			flighttest.Run(t, func(t *testing.T, grace time.Duration) flighttest.Group {
				g := rig.GuardFrom(&rig.Story{T: t, Start: time.Now()}, source, weir.Options{LoadTimeout: -1, AbandonGrace: grace})
				return flighttest.Group{
					Do: func(ctx context.Context, key any, load flighttest.Load) (int, bool, error) {
						r := call(g, context.WithValue(ctx, loadKey{}, load), key)
						return r.Value, r.Joined, r.Err
					},
					Joinable: func() int { return g.Stats().Flights },
				}
			})
		})
	}
}
