package weir_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir"
)

func ExampleGuard_Snapshot() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "prices.snapshot")

	start := func(release string) *weir.Guard[string, int] {
		prices := weir.Must(weir.New(func(_ context.Context, item string) (int, error) {
			fmt.Println(release, "queries the price of", item)
			return 12, nil
		}, weir.Options{Name: "prices", TTL: time.Hour}))
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) {
			return prices // the first start
		}
		if err != nil {
			panic(err)
		}
		defer f.Close()
		n, err := prices.Restore(ctx, f, nil)
		fmt.Println(release, "restores", n, err) // with an error, it starts with what is restored
		return prices
	}
	stop := func(prices *weir.Guard[string, int]) {
		f, err := os.Create(file + ".new")
		if err != nil {
			panic(err)
		}
		_, err = prices.Snapshot(ctx, f, nil)
		if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
			panic(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			panic(err)
		}
		_ = prices.Close(ctx)
	}

	for _, release := range []string{"v1", "v2"} {
		prices := start(release)
		fmt.Println(prices.Get(ctx, "lamp"))
		stop(prices)
	}
	// Output:
	// v1 queries the price of lamp
	// 12 <nil>
	// v2 restores 1 <nil>
	// 12 <nil>
}
