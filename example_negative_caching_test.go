package weir_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// The answer "no such row" is cached like a value.
func Example_negativeCaching() {
	ctx := context.Background()
	query := func(ctx context.Context, id int) (string, error) {
		fmt.Println("query for", id)
		return "", sql.ErrNoRows
	}
	users := weir.Must(weir.New(query, weir.Options{
		TTL:         time.Minute,
		NegativeTTL: 10 * time.Second,
		Classify: func(err error) weir.Class {
			if errors.Is(err, sql.ErrNoRows) {
				return weir.ClassNotFound
			}
			return weir.ClassTransient
		},
	}))
	defer users.Close(ctx)

	for range 2 {
		_, err := users.Get(ctx, 404)
		fmt.Println(errors.Is(err, weir.ErrNotFound), errors.Is(err, sql.ErrNoRows), err)
	}
	// Output:
	// query for 404
	// true true sql: no rows in result set
	// true true sql: no rows in result set
}
