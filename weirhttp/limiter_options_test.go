package weirhttp_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// M4: a limiter that cannot work is an error of Validate, and not of each request.
func TestM4_LimitersAreChecked(t *testing.T) {
	t.Parallel()
	none := (*limit.Concurrency)(nil)
	err := weirhttp.Options{Limiter: none, Streams: none, Budget: none, Cost: weirhttp.Cost{Units: 1}}.Validate()
	for _, field := range []string{"Options.Limiter", "Options.Streams", "Options.Budget"} {
		if err == nil || !strings.Contains(err.Error(), field+" is") {
			t.Errorf("Validate = %v; want a fault in %s", err, field)
		}
	}
}
