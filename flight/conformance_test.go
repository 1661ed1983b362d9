package flight_test

import (
	"context"
	"testing"
	"time"

	"github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/flight/flighttest"
)

func TestConformance(t *testing.T) {
	for way, do := range map[string]func(*flight.Group[any, int], context.Context, any, flighttest.Load) flight.Result[int]{
		"DoResult": (*flight.Group[any, int]).DoResult,
		"DoChan": func(g *flight.Group[any, int], ctx context.Context, key any, load flighttest.Load) flight.Result[int] {
			return <-g.DoChan(ctx, key, load)
		},
	} {
		t.Run(way, func(t *testing.T) {
			flighttest.Run(t, func(_ *testing.T, grace time.Duration) flighttest.Group {
				g := &flight.Group[any, int]{Grace: grace}
				return flighttest.Group{
					Do: func(ctx context.Context, key any, load flighttest.Load) (int, bool, error) {
						r := do(g, ctx, key, load)
						return r.Value, r.Joined, r.Err
					},
					Joinable: g.Len,
				}
			})
		})
	}
}
