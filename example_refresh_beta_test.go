package weir_test

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/weir-go/weir"
)

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
