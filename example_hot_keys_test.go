package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// The keys with the most requests, and the keys with the most load time: often
// not the same.
func ExampleGuard_HotKeys() {
	ctx := context.Background()
	reports := weir.Must(weir.New(func(ctx context.Context, month string) (string, error) {
		if month == "2026-02" {
			time.Sleep(20 * time.Millisecond) // a month with much in it
		}
		return "report of " + month, nil
	}, weir.Options{Name: "reports", TTL: time.Minute, HotKeys: 10}))
	defer reports.Close(ctx)

	for range 20 {
		if _, err := reports.Get(ctx, "2026-10"); err != nil {
			panic(err)
		}
	}
	if _, err := reports.Get(ctx, "2026-02"); err != nil {
		panic(err)
	}

	hot := reports.HotKeys(1)
	fmt.Println("by traffic:", hot.ByTraffic[0].Key)
	fmt.Println("by load time:", hot.ByLoadTime[0].Key)
	// Output:
	// by traffic: 2026-10
	// by load time: 2026-02
}
