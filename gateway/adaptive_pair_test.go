package gateway_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// M4: MinConcurrency has no effect with Adaptive, so both together are an error that names them.
func TestM4MinConcurrencyWithAdaptive(t *testing.T) {
	u := gateway.Upstream{Name: "shop", Servers: []string{"http://127.0.0.1:1"}, Adaptive: true, MinConcurrency: 4}
	c := gateway.Config{Upstreams: []gateway.Upstream{u}, Routes: []gateway.Route{{Name: "all", Upstream: "shop"}}}
	err := c.Validate()
	if err == nil || !strings.Contains(err.Error(), "MinConcurrency is 4, must be 0 with Adaptive") {
		t.Errorf("Validate = %v; want an error that names MinConcurrency and Adaptive", err)
	}
	c.Upstreams[0].MinConcurrency = 0
	if err := c.Validate(); err != nil {
		t.Errorf("without MinConcurrency: Validate = %v", err)
	}
}
