package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// When the source is down, callers get the last value it gave, up to the age
// that StaleIfError allows.
func Example_staleOnError() {
	ctx := context.Background()
	down := false
	load := func(ctx context.Context, currency string) (string, error) {
		if down {
			return "", errors.New("connection refused")
		}
		return "1.17", nil
	}
	rates := weir.Must(weir.New(load, weir.Options{
		TTL:          time.Minute,
		StaleIfError: time.Hour,
		SoftTimeout:  time.Second, // slow counts as down
	}))
	defer rates.Close(ctx)

	r := rates.GetResult(ctx, "EUR")
	fmt.Println(r.Value, r.Err, r.State)

	down = true
	rates.Expire(ctx, "EUR") // as if the minute had passed
	r = rates.GetResult(ctx, "EUR")
	fmt.Println(r.Value, r.Err, r.State)
	fmt.Println("because:", r.Cause)

	rates.Invalidate(ctx, "EUR") // the value was wrong: never serve it again
	r = rates.GetResult(ctx, "EUR")
	fmt.Println(r.Err, r.State)
	// Output:
	// 1.17 <nil> loaded
	// 1.17 <nil> stale on error
	// because: connection refused
	// connection refused none
}
