package flight_test

import (
	"context"
	"fmt"

	"github.com/weir-go/weir/flight"
)

// Three callers request the same report at the same time. The query runs once.
func Example() {
	var reports flight.Group[string, string]
	asked := make(chan struct{})
	report := func(context.Context) (string, error) {
		<-asked // wait until all three callers have joined
		fmt.Println("expensive query")
		return "42 orders", nil
	}

	var calls []<-chan flight.Result[string]
	for range 3 {
		calls = append(calls, reports.DoChan(context.Background(), "orders/today", report))
	}
	close(asked)
	for _, call := range calls {
		r := <-call
		fmt.Println(r.Value, r.Joined, r.Joiners)
	}
	// Output:
	// expensive query
	// 42 orders false 3
	// 42 orders true 3
	// 42 orders true 3
}

func ExampleGroup_Do() {
	type user struct{ name string }
	var users flight.Group[int, *user]

	u, err := users.Do(context.Background(), 7, func(ctx context.Context) (*user, error) {
		return &user{"Ada"}, nil // a query, with ctx
	})
	fmt.Println(u.name, err)
	// Output: Ada <nil>
}

// With a channel, a caller can wait for several events, and leave by ending its
// context. No other caller waits here, so the load is canceled.
func ExampleGroup_DoChan() {
	var g flight.Group[string, int]
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	ended := make(chan error)
	call := g.DoChan(ctx, "key", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 0, ctx.Err()
	})
	enough := make(chan struct{})
	close(enough)

	select {
	case r := <-call:
		fmt.Println(r.Value, r.Err)
	case <-enough:
		leave()
		fmt.Println((<-call).Err)
		fmt.Println(<-ended)
	}
	// Output:
	// context canceled
	// weir: abandoned by all its callers
}

// After a write, new callers must not get the result of a read that began before it.
// Earlier callers may.
func ExampleGroup_Forget() {
	var g flight.Group[string, string]
	ctx := context.Background()
	price, written := "old", make(chan struct{})
	reading := make(chan struct{})
	before := g.DoChan(ctx, "price", func(context.Context) (string, error) {
		read := price
		close(reading)
		<-written
		return read, nil
	})

	<-reading
	price = "new"
	g.Forget("price")
	after := g.DoChan(ctx, "price", func(context.Context) (string, error) { return price, nil })

	fmt.Println((<-after).Value)
	close(written)
	fmt.Println((<-before).Value)
	// Output:
	// new
	// old
}
