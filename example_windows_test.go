package weir_test

import (
	"context"
	"fmt"
	"runtime"
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

// With RefreshBeta each hit draws whether it starts a refresh. The shorter the
// rest of the TTL is compared with the load time, the more likely it does. Here
// the load is slow for its TTL, so the refresh starts at once.
func ExampleOptions_refreshBeta() {
	ctx := context.Background()
	version := 0
	load := func(ctx context.Context, key string) (int, error) {
		<-time.After(time.Millisecond)
		version++
		return version, nil
	}
	pages := weir.Must(weir.New(load, weir.Options{
		TTL:         time.Hour,
		RefreshBeta: 1e12, // so that the example need not wait; 1 is usual
	}))
	defer pages.Close(ctx)

	pages.Get(ctx, "home")
	page, _ := pages.Get(ctx, "home")
	fmt.Println("version", page, "is returned at once, and a refresh begins")

	for pages.Stats().Refreshing > 0 {
		runtime.Gosched()
	}
	r, _ := pages.Peek("home")
	fmt.Println("version", r.Value, "was there without a wait")
	// Output:
	// version 1 is returned at once, and a refresh begins
	// version 2 was there without a wait
}
