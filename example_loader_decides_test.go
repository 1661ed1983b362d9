package weir_test

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// A LoadEntry sets the TTL of its value, and asks the source whether the
// previous value has changed.
func Example_loaderDecides() {
	ctx := context.Background()
	// It stands for an HTTP request with If-None-Match.
	fetch := func(url, etag string) (status int, body, newETag string, maxAge time.Duration) {
		if etag == `"1"` {
			return 304, "", etag, time.Minute
		}
		return 200, "hello", `"1"`, time.Minute
	}
	load := func(ctx context.Context, url string, prev weir.Previous[string]) (weir.Entry[string], error) {
		status, body, etag, maxAge := fetch(url, prev.Version)
		fmt.Printf("asked with %q: %d\n", prev.Version, status)
		return weir.Entry[string]{
			Value:       body,
			Version:     etag,
			TTL:         maxAge,
			NoStore:     maxAge == 0, // a TTL of zero would mean that of the Options
			NotModified: status == 304,
		}, nil
	}
	pages := weir.Must(weir.NewFrom(weir.Source[string, string]{LoadEntry: load}, weir.Options{}))
	defer pages.Close(ctx)

	body, err := pages.Get(ctx, "/")
	fmt.Println(body, err)

	pages.Expire(ctx, "/")
	body, err = pages.Get(ctx, "/")
	fmt.Println(body, err)
	// Output:
	// asked with "": 200
	// hello <nil>
	// asked with "\"1\"": 304
	// hello <nil>
}
