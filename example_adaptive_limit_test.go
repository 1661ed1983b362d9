package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A limit that adapts to the number of concurrent calls that the database can
// take, shared by two Guards, and a report with a lower priority.
func Example_adaptiveLimit() {
	db, err := limit.NewAdaptive(limit.AdaptiveOptions{Name: "db"})
	if err != nil {
		panic(err)
	}
	user := func(ctx context.Context, id int) (string, error) { return "Ada", nil }
	total := func(ctx context.Context, month string) (int, error) { return 999, nil } // in cents
	users := weir.Must(weir.New(user, weir.Options{TTL: time.Minute, Limiter: db}))
	totals := weir.Must(weir.New(total, weir.Options{TTL: time.Minute, Limiter: db}))

	ctx := context.Background()
	users.Get(ctx, 7)
	totals.Get(limit.ContextWithPriority(ctx, limit.Low), "2026-11")

	s := db.Stats()
	fmt.Println("limit", s.Limit, "after", s.Admitted, "calls")
	// Output: limit 10 after 2 calls
}
