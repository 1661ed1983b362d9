package weir_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// One Guard for a page that may show an old price, a checkout that may not, and a
// list that shows only cached prices.
func ExampleGuard_GetWith() {
	ctx := context.Background()
	query := func(ctx context.Context, id int) (int, error) { return 990, nil } // in cents
	prices := weir.Must(weir.New(query, weir.Options{TTL: time.Minute, StaleIfError: time.Hour}))
	defer prices.Close(ctx)

	list := prices.GetWith(ctx, 7, weir.Policy{OnlyCached: true})
	fmt.Println(errors.Is(list.Err, weir.ErrNotCached))

	page := prices.GetResult(ctx, 7)
	fmt.Println(page.State, page.Value)

	checkout := prices.GetWith(ctx, 7, weir.Policy{MaxAge: time.Hour, NoStale: true})
	fmt.Println(checkout.State, checkout.Value)
	// Output:
	// true
	// loaded 990
	// fresh 990
}
