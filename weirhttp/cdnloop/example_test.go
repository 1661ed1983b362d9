package cdnloop_test

import (
	"fmt"
	"net/http"

	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// A gateway recognizes a request that has passed it before.
func ExamplePasses() {
	h := http.Header{}
	id := cdnloop.NewID()
	fmt.Println(cdnloop.Passes(h, id))
	h[cdnloop.Field] = cdnloop.Add(h, id)
	fmt.Println(cdnloop.Passes(h, id))
	// Output:
	// 0
	// 1
}
