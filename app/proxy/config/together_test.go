package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/golden"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/gateway"
)

// A slot is a section of a file in which the parts below are written.
var slots = []string{"top", "server", "cache", "fleet", "upstream", "upstream.cost", "route", "route.cache", "route.rate", "route.query", "route.request", "read", "events"}

// parts are settings that each have their own fault, some of the gateway and some of
// this package, by their section.
var parts = map[string][]string{
	"top":    {"name: 1a", "drain: {timeout: 60}", "zzz: 1", "admin: {address: \"0.0.0.0:1\"}", "trusted_proxies: [nowhere]"},
	"server": {"idle_timeout: 5", "max_drain: 0", "zzz: 1"},
	"cache":  {"memory: 1kb", "dir_size: 1"},
	"fleet":  {"redis: {addresses: [\":1\"]}", "cooling: 5s, max_cooling: 1s", "lease: 3"},
	"upstream": {
		"servers: [\"http://h\", \"http://h:80\"]", "servers: [\"x y\"]", "base_path: /a/../b", "health: {path: \"/%zz\", interval: 1}",
		"idle_timeout: 5", "adaptive: true, concurrency: 10001", "budget: {units: 0}", "retry: {statuses: [1]}",
	},
	"upstream.cost": {"price: 1", "default: 1", "usage: x", "currency: eur"},
	"route": {
		"hosts: [a.b, A.B]", "hosts: [\"a b\", c.d, C.D]", "path: \"/%zz\"", "path: x, strip_prefix: /y", "path: /x, strip_prefix: /y",
		"methods: [get]", "upstream: other", "timeout: 5", "async: {backoff: 2s, max_backoff: 1s}",
		"client_budget: {units: 1, per: 1500us, fleet: true}", "response: {set: {Connection: x}, remove: [Host]}",
	},
	"route.cache": {
		"force: true", "cooling: 2s, max_cooling: 1s", "cooling: 5", "ignore_headers: [CDN-Loop]", "heuristic: 2", "tll: 1m, force: true", "vary: [\"a b\"]",
	},
	"route.rate":    {"burst: 1000000000, per: 24h", "per: 5", "by: X-Key", "clients: 0"},
	"route.query":   {"keep: [" + strings.Repeat("a,", 101) + "]", "drop: [\"?\"]", "sort: 1"},
	"route.request": {"set: {Host: x, Connection: y}", "remove: [a b]", "set_from_file: {Connection: ../good.token}", "set: {A:b}"},
	"read": {
		"ignore: [/a]", "ignore: [/a, b]", "only_if: [/a = 0, /a = 1], compare: json", "only_if: [/a = 0]", "graphql: true",
		"graphql: true, compare: json, ignore: [/query/x]", "compare: jsn, ignore: [/b]", "compre: json, ignore: [/b]", "methods: [PUT]", "types: [x]",
	},
	"events": {"ttl: 10m", "replay: fst", "end_type: \"\""},
}

// together writes parts into a file that is otherwise right.
func together(in map[string]string) string {
	add := func(slot string, settings ...string) string {
		if in[slot] != "" {
			settings = append(settings, in[slot])
		}
		return "{" + strings.Join(settings, ", ") + "}"
	}
	servers := "servers: [\"http://127.0.0.1:1\"]"
	if strings.HasPrefix(in["upstream"], "servers") {
		servers = "queue: 5"
	}
	redis := "redis: {addresses: [\"127.0.0.1:6379\"]}, rate_failure: open"
	if strings.HasPrefix(in["fleet"], "redis") {
		redis = "rate_failure: open"
	}
	cost := []string{"units: 1"}
	read := []string{"types: [application/json]"}
	if strings.HasPrefix(in["read"], "types") {
		read = nil
	}
	return strings.Join([]string{
		in["top"],
		"jobs: {dir: jobs}",
		"server: " + add("server"), "cache: " + add("cache"), "fleet: " + add("fleet", redis),
		"upstreams: [" + add("upstream", "name: a", servers, "cost: "+add("upstream.cost", cost...)) + "]",
		"routes: [" + add("route", "name: r", "cache: "+add("route.cache"), "rate: "+add("route.rate", "requests: 1000"), "query: "+add("route.query"),
			"request: "+add("route.request"), "reads: ["+add("read", read...)+"]", "events: "+add("events")) + "]", "",
	}, "\n")
}

// messages returns the faults of a file, without the places in it.
func messages(t *testing.T, text string) []string {
	t.Helper()
	_, faults := load(t, text)
	var all []string
	for _, f := range faults {
		all = append(all, fmt.Sprintf("%s: %s %s", f.Field, f.Value, f.Problem))
	}
	slices.Sort(all)
	return all
}

// Two faults in one file are both reported, exactly as each of them is alone: no fault
// hides another one, and none is the consequence of another one.
func TestH4_AllFaultsAreReportedTogether(t *testing.T) {
	folder(t)
	if got := messages(t, together(nil)); got != nil {
		t.Fatalf("the file without faults has %q", got)
	}
	alone := map[string][]string{}
	n := 0
	for _, slot := range slots {
		for _, part := range parts[slot] {
			alone[slot+part] = messages(t, together(map[string]string{slot: part}))
			if len(alone[slot+part]) == 0 {
				t.Errorf("%s: %s has no fault", slot, part)
			}
		}
	}
	for i, a := range slots {
		for _, b := range slots[i+1:] {
			for _, one := range parts[a] {
				for _, other := range parts[b] {
					if n++; n%3 != 0 && !golden.Updating() { // all of them take long
						continue
					}
					want := append(slices.Clone(alone[a+one]), alone[b+other]...)
					slices.Sort(want)
					if got := messages(t, together(map[string]string{a: one, b: other})); !slices.Equal(got, want) {
						t.Errorf("%s: %s and %s: %s: faults\n%s\nwant\n%s", a, one, b, other, strings.Join(got, "\n"), strings.Join(want, "\n"))
					}
				}
			}
		}
	}
	if n < 1000 {
		t.Errorf("%d pairs; want at least 1000", n)
	}
}

// A mere consequence of a fault is not reported.
func TestH4_ConsequencesAreNoFaults(t *testing.T) {
	folder(t)
	for _, tt := range []struct{ text, fields string }{
		{one + "routes: [{name: a, strip_prefix: /y, path: y z}]", "routes[0].path"},
		{one + "routes: [{name: a, strip_prefix: /y, pth: /y}]", "routes[0].pth"},
		{one + "routes: [{name: a, cache: {max_cooling: 1ms, cooling: 2}}]", "routes[0].cache.cooling"},
		{one + "routes: [{name: a, cache: {max_cooling: 1ms, coolng: 1ms}}]", "routes[0].cache.coolng"},
		{one + "routes: [{name: a, cache: {ttl:5s, force: true}}]", "routes[0].cache.ttl…"},
		{one + "routes: [{name: a, reads: [{types: [a/b], compare: jsn, ignore: [/a]}]}]", "routes[0].reads[0].compare"},
		{one + "routes: [{name: a, reads: [{types: [a], methods: [get]}]}]", "routes[0].reads[0].types[0] routes[0].reads[0].methods[0]"},
		{one + "routes: [{name: a, budget: {units: 5}, cost: {unts: 5}}]", "routes[0].cost.unts"},
		{one + "routes: [{name: a, budget: {units: 5}, cost: 5}]", "routes[0].cost"},
		{one + "routes: [{name: a, budget: {unit: 5}, cost: {units: 1}}]", "routes[0].budget.unit"},
		{one + "fleet: x\nroutes: [{name: a, cost: {units: 1}, budget: {units: 5, fleet: true}}]", "fleet"},
		{one + "flet: {redis: {addresses: [\"a:1\"]}}\nroutes: [{name: a, cost: {units: 1}, budget: {units: 5, fleet: true}}]", "flet"},
		{one + "cache: {memory: 1gb}\nroutes: [{name: a, cache: {max_object: 100MiB}}]", "cache.memory"},
		{one + "routes: [{name: a, rate: {requests: x, burst: 100000}}]", "routes[0].rate.requests"},
		{one + "routes: [{name: a, async: {backoff: 2d, max_backoff: 1ms}}]\njobs: {dir: j}", "routes[0].async.backoff"},
		{one + "routes: [{name: a, async: {}}]\njob: {dir: j}", "job"},
		{one + "admin: {address: \":1\", token_fil: ../good.token}", "admin.token_fil"},
		{one + "listen: [{address: \":1\", proxy_protocol: true}]\ntrusted_proxys: [10.0.0.1]", "trusted_proxys"},
		{"upstrems: [{name: a, servers: [\"http://a\"]}]", "upstrems"},
		{"upstreams: [{name: a b, servers: [\"http://a\"]}]\nroutes: [{name: r, upstream: a}]", "upstreams[0].name"},
		{"upstreams: [{name: a, servers: [\"x y\"]}]\nroutes: [{name: r}]", "upstreams[0].servers[0]"},
		{one + "routes: [{name: a, hosts: [\"a b\", c.d, C.D]}]", "routes[0].hosts[0] routes[0].hosts[2]"},
		{"upstreams: [{name: a, servers: [\"x y\", \"http://a\", \"http://a\"]}]", "upstreams[0].servers[0] upstreams[0].servers[2]"},
		{one + "fleet: {redis: {addresses: [x, \":1\"], cluster: true}}", "fleet.redis.addresses[0] fleet.redis.addresses[1]"},
		{one + "routes: [{name: a, cache: {vary: [\"a b\", c]}, request: {remove: [\"d e\"]}}]", "routes[0].cache.vary[0] routes[0].request.remove[0]"},
		{one + "cache: {memory: 64MiB}\nroutes: [{name: a, cache: {max_object: 33MiB}}]", "routes[0].cache.max_object"},
	} {
		_, faults := load(t, tt.text)
		var fields []string
		for _, f := range faults {
			fields = append(fields, f.Field)
		}
		want := strings.Fields(tt.fields)
		slices.Sort(want)
		slices.Sort(fields)
		if !slices.Equal(fields, want) {
			t.Errorf("%s: faults\n%s\nwant those of %q", tt.text, faults.Text(), want)
		}
	}
}

// No fault speaks of the gateway's Go names, which are in no file.
func TestH4_FaultsHaveNoGoNames(t *testing.T) {
	names := []string{"Config", "Policy", "CompareBytes", "CompareJSON", "MatchSent", "MatchNormalized", "MatchCaseless", "FailOpen", "FailClosed", "FailLocalShare", "ReplayFast", "ReplayPaced"}
	for _, of := range []reflect.Type{reflect.TypeFor[gateway.Config](), reflect.TypeFor[gateway.Upstream](), reflect.TypeFor[gateway.Route]()} {
		for _, path := range paths(of, "") {
			names = append(names, strings.Split(path, ".")...)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "Host" }) // also a header field
	goName := regexp.MustCompile(`\b(` + strings.Join(names, "|") + `)\b`)
	check := func(text string) {
		t.Helper()
		for _, f := range func() config.Faults { _, faults := load(t, text); return faults }() {
			if found := goName.FindString(f.Problem); found != "" {
				t.Errorf("the problem of %s is %q, which has %s", f.Field, f.Problem, found)
			}
		}
	}
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var texts []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	folder(t)
	for _, text := range texts {
		check(text)
	}
	for _, slot := range slots {
		for _, part := range parts[slot] {
			check(together(map[string]string{slot: part}))
		}
	}
	check(one + "routes: [{name: a, budget: {units: 5}}]")
	check(one + "routes: [{name: a, cost: {units: 1}, budget: {units: 5, fleet: true}, client_budget: {units: 5, fleet: true, by: \"header:A\"}, cache: {ignore_headers: [a]}}]")
	check(one + "routes: [{name: a, reads: [{compare: json}, {types: [a/b], methods: [PUT]}]}]")
}
