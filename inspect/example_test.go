package inspect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// A Guard of any types reports the durations of its loads.
func ExampleDurations() {
	load := func(ctx context.Context, key string) (string, error) { return "value", nil }
	g := weir.Must(weir.New(load, weir.Options{Name: "reports", TTL: time.Minute}))
	defer g.Close(context.Background())
	g.Get(context.Background(), "November")

	var i weir.Inspector = g
	d := i.LoadTimes()
	fmt.Println(i.Name(), "has loaded", d.Count, "time")
	// Output: reports has loaded 1 time
}
