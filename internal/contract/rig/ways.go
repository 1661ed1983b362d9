package rig

import (
	"context"
	"errors"

	"github.com/weir-go/weir"
)

// Ways are the ways to wait for a load.
var Ways = map[string]func(*weir.Guard[string, int], context.Context) weir.Result[int]{
	"Get": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] {
		v, err := g.Get(ctx, "k")
		return weir.Result[int]{Value: v, Err: err}
	},
	"GetResult": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] { return g.GetResult(ctx, "k") },
	"Refresh": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] {
		return g.RefreshResult(ctx, "k")
	},
	"GetMany": func(g *weir.Guard[string, int], ctx context.Context) weir.Result[int] {
		results := g.GetMany(ctx, []string{"other", "k"})
		for _, r := range results {
			if (r.Err == nil) != (results["k"].Err == nil) {
				return weir.Result[int]{Err: errors.New("the other key fares otherwise")}
			}
		}
		return results["k"]
	},
}
