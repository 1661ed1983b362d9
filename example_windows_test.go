package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// The four instants of an entry: refreshed ahead of 5 minutes, fresh until
// then, replaced in the background for one more, served for an hour if the
// source fails.
func ExampleOptions() {
	o := weir.Options{
		TTL:                  5 * time.Minute,
		RefreshAhead:         0.2,
		StaleWhileRevalidate: time.Minute,
		StaleIfError:         time.Hour,
		SoftTimeout:          300 * time.Millisecond,
		LoadTimeout:          5 * time.Second,
		NegativeTTL:          30 * time.Second,
	}
	load := func(ctx context.Context, key string) (string, error) { return "value", nil }
	g, err := weir.New(load, o)
	if err != nil {
		panic(err)
	}
	defer g.Close(context.Background())
	for _, advice := range o.Advice() {
		fmt.Println(advice)
	}

	o.StaleIfError, o.StaleWhileRevalidate = 0, 0
	for _, advice := range o.Advice() {
		fmt.Println(advice)
	}
	// Output:
	// SoftTimeout (300ms) has no effect without StaleIfError: there is no stale value to serve
}
