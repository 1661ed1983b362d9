package weir_test

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/weir-go/weir"
)

// With RefreshBeta each hit draws whether it starts a refresh, and is the more
// likely to, the less time there is left in comparison with what the load took.
// Here the load is slow against the TTL, so that the refresh comes at once.
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
		RefreshBeta: 1e12, // not to keep you waiting; 1 is usual
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
