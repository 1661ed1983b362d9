package weir_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/weir-go/weir"
)

// Without a TTL nothing is kept: callers that ask at the same time share one
// load, and the next one loads again.
func Example_coalescing() {
	ctx := context.Background()
	allHere := make(chan struct{})
	render := func(ctx context.Context, name string) (string, error) {
		fmt.Println("render", name)
		<-allHere // slow enough that a hundred callers arrive meanwhile
		return "42 orders", nil
	}
	reports := weir.Must(weir.New(render, weir.Options{}))
	defer reports.Close(ctx)

	var callers sync.WaitGroup
	for range 100 {
		callers.Go(func() { reports.Get(ctx, "today") })
	}
	for reports.Stats().Joins < 99 {
		runtime.Gosched()
	}
	close(allHere)
	callers.Wait()

	reports.Get(ctx, "today")
	fmt.Println(reports.Stats().Loads, "loads for 101 calls")
	// Output:
	// render today
	// render today
	// 2 loads for 101 calls
}
