package weir_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/weir-go/weir"
)

// A query behind a Guard runs once a minute per key, however often it is
// called.
func Example_cachedQuery() {
	ctx := context.Background()
	// It stands for db.QueryRowContext(ctx, "SELECT name FROM users WHERE id = $1", id).
	query := func(ctx context.Context, id int) (string, error) {
		fmt.Println("query for", id)
		return "Ada", nil
	}
	users, err := weir.New(query, weir.Options{TTL: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	defer users.Close(ctx)

	for range 3 {
		name, err := users.Get(ctx, 7)
		fmt.Println(name, err)
	}
	// Output:
	// query for 7
	// Ada <nil>
	// Ada <nil>
	// Ada <nil>
}
