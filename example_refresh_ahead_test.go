package weir_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
)

// A hit late in the TTL starts a load in the background. No caller waits for a
// frequently requested key again.
func Example_refreshAhead() {
	ctx := context.Background()
	var version atomic.Int64
	load := func(ctx context.Context, key string) (string, error) {
		return fmt.Sprintf("v%d", version.Add(1)), nil
	}
	pages := weir.Must(weir.New(load, weir.Options{
		TTL:                  10 * time.Millisecond, // short for the example
		RefreshAhead:         0.2,                   // in the last fifth of it
		StaleWhileRevalidate: time.Hour,             // for a reader that comes later than the TTL
	}))
	defer pages.Close(ctx)

	page, _ := pages.Get(ctx, "home")
	fmt.Println(page, "was loaded")

	<-time.After(9 * time.Millisecond)
	page, _ = pages.Get(ctx, "home")
	fmt.Println(page, "is returned at once, and a refresh begins")

	for pages.Stats().Refreshing > 0 {
		runtime.Gosched()
	}
	page, _ = pages.Get(ctx, "home")
	fmt.Println(page, "was there without a wait")
	// Output:
	// v1 was loaded
	// v1 is returned at once, and a refresh begins
	// v2 was there without a wait
}
