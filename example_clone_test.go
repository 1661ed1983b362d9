package weir_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir"
)

// All callers share one value. Clone gives each call its own copy, for callers
// that change the value.
func Example_clone() {
	ctx := context.Background()
	load := func(ctx context.Context, project string) ([]string, error) {
		return []string{"Grace", "Ada"}, nil
	}
	projects := weir.Must(weir.NewFrom(weir.Source[string, []string]{
		Load:  load,
		Clone: slices.Clone[[]string],
	}, weir.Options{TTL: time.Minute}))
	defer projects.Close(ctx)

	sorted, _ := projects.Get(ctx, "compilers")
	slices.Sort(sorted)

	other, _ := projects.Get(ctx, "compilers")
	fmt.Println(sorted, other)
	// Output: [Ada Grace] [Grace Ada]
}
