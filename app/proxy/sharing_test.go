package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// H22: the summary names the routes whose clients may share less than an operator expects,
// and that say nothing about it.
func TestH22_TheSummarySaysWhatKeepsRequestsApart(t *testing.T) {
	ttl := weirhttp.Policy{TTL: time.Minute}
	unkeyed, varies, ignores := ttl, ttl, weirhttp.Policy{IgnoreHeaders: []string{"*"}}
	unkeyed.UnkeyedHeaders, varies.Vary = []string{"X-Acme"}, []string{"X-Tenant"}
	got := sharing([]gateway.Route{
		{Name: "ttl", Cache: ttl},
		{Name: "unkeyed", Cache: unkeyed},
		{Name: "varies", Cache: varies},
		{Name: "events", Events: weirhttp.EventPolicy{Share: true}},
		{Reads: []weirhttp.ReadRule{{}}},
		{Name: "observed", Cache: ttl, Observe: true},
		{Name: "plain"},
		{Name: "any", Coalesce: gateway.CoalesceAnyClient},
		{Name: "alone", Coalesce: gateway.CoalesceNone},
		{Name: "ignores", Cache: ignores},
	})
	for i := range got {
		got[i], _, _ = strings.Cut(got[i], ":")
	}
	if want := []string{"ttl, events, route 5", "plain"}; !slices.Equal(got, want) {
		t.Errorf("sharing = %q; want %q", got, want)
	}
}
