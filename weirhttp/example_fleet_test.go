package weirhttp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/weirhttp"
)

// Two instances of a service make one call. In production each is a separate process,
// and the Tier is one of package weirredis.
func ExampleFleetOptions() {
	report := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("the report is made")
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, "42")
	})
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	defer tier.Close(context.Background())
	for range 2 {
		h, err := weirhttp.New(report, weirhttp.Options{Fleet: weirhttp.FleetOptions{Config: fleet.Config{Tier: tier}}})
		if err != nil {
			panic(err)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://shop.example/report", nil))
		h.Close(context.Background()) // waits until the fetched response is available to the other instances
		fmt.Println(w.Body, "-", w.Header().Get("Cache-Status"))
	}
	// Output:
	// the report is made
	// 42 - weir; fwd=uri-miss; fwd-status=200; ttl=60; stored
	// 42 - weir; hit; ttl=60; detail=fleet
}
