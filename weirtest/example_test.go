package weirtest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/weirtest"
)

// The source returns a value once and is down from then on.
func Example() {
	ctx := context.Background()
	var prices weirtest.Loader[string, int]
	prices.On("tea").Return(3).Fail(errors.New("down"))

	g := weir.Must(weir.New(prices.Load, weir.Options{TTL: time.Minute, StaleIfError: time.Hour}))
	defer g.Close(ctx)
	for range 2 {
		r := g.GetResult(ctx, "tea")
		fmt.Println(r.Value, r.State, r.Cause)
		g.Expire(ctx, "tea")
	}
	fmt.Println(prices.Count("tea"), "loads")
	// Output:
	// 3 loaded <nil>
	// 3 stale on error down
	// 2 loads
}

// An invalidation arrives while a load is in flight, and wins. In a test, use Started
// instead of Next.
func ExampleLoader_Block() {
	ctx := context.Background()
	var prices weirtest.Loader[string, int]
	prices.Block("tea")
	g := weir.Must(weir.New(prices.Load, weir.Options{TTL: time.Minute}))
	defer g.Close(ctx)

	waiting := make(chan weir.Result[int])
	go func() { waiting <- g.GetResult(ctx, "tea") }()
	load, err := prices.Next(ctx, "tea")
	if err != nil {
		panic(err)
	}
	g.Invalidate(ctx, "tea")
	load.Return(3)

	r := <-waiting
	fmt.Println("who came before it:", r.Value, "superseded:", r.Superseded)
	_, kept := g.Peek("tea")
	fmt.Println("kept:", kept)
	// Output:
	// who came before it: 3 superseded: true
	// kept: false
}

// A bulk load takes the answer for each key from that key's script.
func ExampleLoader_LoadMany() {
	ctx := context.Background()
	names := weirtest.Loader[int, string]{
		Func: func(_ context.Context, id int) (string, error) { return fmt.Sprint("user ", id), nil },
	}
	names.On(3).Fail(weir.ErrNotFound)
	g := weir.Must(weir.NewFrom(weir.Source[int, string]{LoadMany: names.LoadMany}, weir.Options{}))
	defer g.Close(ctx)

	results := g.GetMany(ctx, []int{1, 2, 3})
	for id := range 3 {
		r := results[id+1]
		fmt.Printf("%q %v\n", r.Value, r.State)
	}
	fmt.Println(names.Total(), "load for", names.Calls()[0].Keys())
	// Output:
	// "user 1" loaded
	// "user 2" loaded
	// "" negative
	// 1 load for [1 2 3]
}
