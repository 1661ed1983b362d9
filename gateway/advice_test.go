package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// A field that distinguishes clients is not part of the key of their responses.
func TestH13_AdviceOnSharedAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*gateway.Route)
		want   bool
	}{
		{"shared", func(*gateway.Route) {}, true},
		{"without a TTL", func(r *gateway.Route) { r.Cache.TTL = 0 }, false},
		{"not stored", func(r *gateway.Route) { r.NoStore = true }, false},
		{"kept apart", func(r *gateway.Route) { r.Cache.Vary = []string{"x-key"} }, false},
		{"taken out", func(r *gateway.Route) { r.Cache.IgnoreHeaders = []string{"X-Key"} }, false},
		{"by address", func(r *gateway.Route) { r.RateBy = "address" }, false},
		{"credentials", func(r *gateway.Route) { r.RateBy = "header:Authorization" }, false},
		{"no rate", func(r *gateway.Route) { r.Rate = nil }, false},
	} {
		r := gateway.Route{Name: "a", RateBy: "header:X-Key", Rate: &weirhttp.ClientLimiterOptions{Rate: 1}}
		r.Cache.TTL = time.Minute
		tt.change(&r)
		got := gateway.Config{Routes: []gateway.Route{r}}.Advice()
		if (len(got) == 1) != tt.want || tt.want && !strings.Contains(got[0], "X-Key") {
			t.Errorf("%s: Advice = %q; want one: %v", tt.name, got, tt.want)
		}
	}
}
