package config_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
)

// Every option of the gateway can be set in a file.
func TestEveryFieldOfTheGatewayHasASetting(t *testing.T) {
	top, upstream, route := config.GatewayFields()
	for _, tt := range []struct {
		of       reflect.Type
		settings map[string]string
		not      []string // functions, and fields that the program creates or takes from other settings
	}{
		{reflect.TypeFor[gateway.Config](), top, []string{"Cache", "Claims", "TrustedProxies", "Observer", "ServerChanged", "LimitChanged", "ErrorHandler", "Front", "Fleet.Tier", "Fleet.Logger"}},
		{reflect.TypeFor[gateway.Upstream](), upstream, []string{"Resolver", "Sticky.Key"}}, // the key is of key_file
		{reflect.TypeFor[gateway.Route](), route, []string{"Rewrite", "Rate.Key", "Rate.Client", "Rate.Name", "Rate.Fleet.Meter", "Rate.Fleet.Namespace", "Rate.Fleet.OnFailure", "Rate.Fleet.Instances", "Cache.ForwardingDropped", "Cache.AnyClient"}},
	} {
		for _, path := range paths(tt.of, "") {
			if tt.settings[path] == "" && !slices.Contains(tt.not, path) {
				t.Errorf("no setting for %s.%s", tt.of, path)
			}
		}
	}
}

// paths returns the fields of a struct, with those of nested structs.
func paths(t reflect.Type, prefix string) []string {
	var out []string
	for i := range t.NumField() {
		f := t.Field(i)
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if f.Anonymous {
			out = append(out, paths(ft, prefix)...)
			continue
		}
		ours := strings.HasPrefix(ft.PkgPath(), "github.com/weir-go/weir/") && ft != reflect.TypeFor[weirhttp.Cache]() && ft != reflect.TypeFor[once.Claims]()
		if f.Name == "Cache" && ft != reflect.TypeFor[weirhttp.Cache]() || ft.Kind() == reflect.Struct && ours {
			out = append(out, paths(ft, prefix+f.Name+".")...)
			continue
		}
		out = append(out, prefix+f.Name)
	}
	return out
}

func TestGatewayGetsWhatTheFileSays(t *testing.T) {
	dir := folder(t)
	c, faults := load(t, `
name: edge
trusted_proxies: [10.0.0.1, "fd00::/8"]
server: {max_drain: 1KiB}
upstreams:
  - {name: a, servers: ["http://127.0.0.1:1"], concurrency: none, queue: none, host: "api.internal:8080", base_path: /v1, health: {failures: none, path: /up}}
error_pages: [{html: ../error.html}]
routes:
  - name: r
    query: {keep: [q], drop: ["utm_*"], sort: true}
    path: /api/v1
    strip_prefix: /api
    path_match: caseless
    timeout: none
    idle_timeout: 5s
    priority: high
    coalesce: false
    receipt: false
    max_body: 1MiB
    rate: {requests: 5, per: 1m, by: "header:X-Key", clients: 10}
    cache: {store: false, ttl: 1m, vary: [accept-language], ignore_headers: [x-trace], stale_if_error: 2m}
    request: {set: {x-a: "1", x-b: [a, b]}, set_from_file: {x-key: ../good.token}, remove: [x-c]}
`)
	if faults != nil {
		t.Fatal(faults.Text())
	}
	got, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	r, u := got.Routes[0], got.Upstreams[0]
	for _, tt := range []struct {
		what      string
		got, want any
	}{
		{"Name", got.Name, "edge"},
		{"MaxDrain", got.MaxDrain, int64(1024)},
		{"Cache", got.Cache != nil, true},
		{"TrustedProxies", len(got.TrustedProxies), 2},
		{"TrustedProxies[0]", got.TrustedProxies[0].String(), "10.0.0.1/32"},
		{"Concurrency", u.Concurrency, -1},
		{"Queue", u.Queue, -1},
		{"Health.Failures", u.Health.Failures, -1},
		{"Health.Path", u.Health.Path, "/up"},
		{"Host", u.Host, "api.internal:8080"},
		{"BasePath", u.BasePath, "/v1"},
		{"Query", r.Query, weirhttp.QueryRules{Keep: []string{"q"}, Drop: []string{"utm_*"}, Sort: true}},
		{"MaxVariants", r.MaxVariants, 32},
		{"StripPrefix", r.StripPrefix, "/api"},
		{"ErrorHandler", got.ErrorHandler != nil, true},
		{"Upstream", r.Upstream, "a"},
		{"PathMatch", r.PathMatch, gateway.MatchCaseless},
		{"Timeout", r.Timeout, time.Duration(-1)},
		{"IdleTimeout", r.IdleTimeout, 5 * time.Second},
		{"Priority", r.Priority, limit.High},
		{"Coalesce", r.Coalesce, gateway.CoalesceNone},
		{"NoReceipt", r.NoReceipt, true},
		{"NoStore", r.NoStore, true},
		{"MaxBody", r.MaxBody, int64(1 << 20)},
		{"Rate", *r.Rate, weirhttp.ClientLimiterOptions{Rate: 5, Per: time.Minute, Burst: 5, Keys: 10}},
		{"RateBy", r.RateBy, "header:X-Key"},
		{"Cache.TTL", r.Cache.TTL, time.Minute},
		{"Cache.StaleIfError", r.Cache.StaleIfError, 2 * time.Minute},
		{"Cache.Vary", r.Cache.Vary, []string{"Accept-Language"}},
		{"Cache.IgnoreHeaders", r.Cache.IgnoreHeaders, []string{"X-Trace"}},
		{"SetRequest", r.SetRequest, http.Header{"X-A": {"1"}, "X-B": {"a", "b"}, "X-Key": {"0123456789abcdef"}}},
		{"RemoveRequest", r.RemoveRequest, []string{"X-C"}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s = %v; want %v", tt.what, tt.got, tt.want)
		}
	}
	if c.Routes[0].Request.Set["X-Key"] != nil {
		t.Error("Gateway put a secret into the Config")
	}
	write(t, dir+"/good.token", "")
	if _, err := c.Gateway(); err == nil || !strings.Contains(err.Error(), "routes[0].request.set_from_file.X-Key") {
		t.Errorf("Gateway without the secret = %v; want a fault about the field", err)
	}
}

// The gateway itself validates last: this package knows nothing about framing.
func TestGatewayHasTheLastWord(t *testing.T) {
	folder(t)
	_, faults := load(t, one+`routes:
  - {name: a, hosts: [a.b, A.B], request: {set: {X-A: "1", connection: sesame}, remove: [host]}}
  - {name: b, path: /%zz}
`)
	want := []string{
		`weir.yaml:3:28: routes[0].hosts[1]: "A.B" is already in the list: hosts are case-insensitive`,
		`weir.yaml:3:72: routes[0].request.set.Connection: must be a field that does not concern the connection or the framing`,
		`weir.yaml:3:90: routes[0].request.remove[0]: "Host" must be a field that does not concern the connection or the framing`,
		"weir.yaml:4:21: routes[1].path: \"/%zz\" must be a path, escaped, without a query, perhaps with \"=\" before it",
	}
	if faults == nil || faults.Error() != strings.Join(want, "\n") {
		t.Errorf("faults =\n%v\nwant\n%s", faults, strings.Join(want, "\n"))
	}
}

func TestObserveIsForEveryRoute(t *testing.T) {
	folder(t)
	c, faults := load(t, one+"observe: true\nroutes: [{name: a}, {name: b, path: /b}]\n")
	if faults != nil {
		t.Fatal(faults.Text())
	}
	g, err := c.Gateway()
	if err != nil || !g.Routes[0].Observe || !g.Routes[1].Observe {
		t.Errorf("Observe = %v, %v, %v; want true, true", g.Routes[0].Observe, g.Routes[1].Observe, err)
	}
}

// Errors of the gateway use the names of the file.
func TestFaultsOfTheGatewayAreFoundInTheFile(t *testing.T) {
	folder(t)
	text := one + `routes:
  - name: a
    cache:
      ttl: 5s
      store: false
    rate: {requests: 3, by: address}
    request:
      set: {X-A: sesame}
  - name: b
    path: /b
`
	for _, tt := range []struct {
		field string
		want  string
	}{
		{"Routes[0].Cache.TTL", `weir.yaml:5:12: routes[0].cache.ttl: "1" must be so`},
		{"Routes[0].NoStore", `weir.yaml:6:14: routes[0].cache.store: "1" must be so`},
		{"Routes[0].Rate.Rate", `weir.yaml:7:22: routes[0].rate.requests: "1" must be so`},
		{"Routes[0].RateBy", `weir.yaml:7:29: routes[0].rate.by: "1" must be so`},
		{`Routes[0].SetRequest["X-A"]`, `weir.yaml:9:18: routes[0].request.set.X-A: must be so`},
		{"Routes[1].Path", `weir.yaml:11:11: routes[1].path: "1" must be so`},
		{"Routes[1].Cache.StaleIfError", `weir.yaml:10:5: routes[1].cache.stale_if_error: "1" must be so`},
		{"Config.Routes[1].Name", `weir.yaml:10:11: routes[1].name: "1" must be so`},
		{"Routes[0].Rate", `weir.yaml:7:11: routes[0].rate: "1" must be so`},
		{"Upstreams[0].Servers[0]", `weir.yaml:1:33: upstreams[0].servers[0]: "1" must be so`},
		{"Upstreams[0].Health.Interval", `weir.yaml:1:13: upstreams[0].health.interval: "1" must be so`},
		{"MaxDrain", `weir.yaml: server.max_drain: "1" must be so`},
		{"Routes[1].Something.New", `weir.yaml:10:5: routes[1].Something.New: "1" must be so`},
	} {
		write(t, "weir.yaml", text)
		s := config.Source{File: "weir.yaml"}.Validated(func(gateway.Config) error {
			return errors.Join(&gateway.OptionError{Field: tt.field, Value: 1, Bound: "so"})
		})
		if _, faults := loadFrom(t, s); faults == nil || faults.Error() != tt.want {
			t.Errorf("%s: Load = %v; want %s", tt.field, faults, tt.want)
		}
	}
	s := config.Source{File: "weir.yaml"}.Validated(func(gateway.Config) error { return errors.New("gateway: no") })
	if _, faults := loadFrom(t, s); faults == nil || faults.Error() != "weir.yaml: gateway: no" {
		t.Errorf("another error: Load = %v", faults)
	}
}

func TestH39_TheKeyOfACookieIsInAFile(t *testing.T) {
	folder(t)
	write(t, "good.key", "0123456789abcdef\n")
	write(t, "short.key", "secret\n")
	c, faults := load(t, `upstreams: [{name: a, servers: ["http://127.0.0.1:1"], sticky: {cookie: srv, key_file: good.key}, affinity: {by: [path], bound: none}}]
routes: [{name: all}]
`)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	g, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	if u := g.Upstreams[0]; string(u.Sticky.Key) != "0123456789abcdef" || u.Affinity.Bound != -1 {
		t.Errorf("the gateway gets %+v and %+v; want the key and no bound", u.Sticky, u.Affinity)
	}
	_, faults = load(t, `upstreams: [{name: a, servers: ["http://127.0.0.1:1"], sticky: {cookie: srv, key_file: short.key}}]
routes: [{name: all}]
`)
	if text := fmt.Sprint(faults); !strings.Contains(text, "upstreams[0].sticky.key_file: ") || !strings.Contains(text, "at least 16 bytes") || strings.Contains(text, "secret\"") {
		t.Errorf("faults = %s; want one of the key, without it", text)
	}
}
