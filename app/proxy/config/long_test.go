package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Keys and lists of any size cost little, and a fault stays on one line of bounded length.
func TestH4_LongKeysAreBounded(t *testing.T) {
	folder(t)
	long := strings.Repeat("k", 300_000)
	var aliases strings.Builder
	for i := range 40 {
		fmt.Fprintf(&aliases, "- {name: r%d, cache: *a, request: *a, response: *a}\n", i)
	}
	var servers []string
	for i := range 50_000 {
		servers = append(servers, fmt.Sprintf("http://h:%d", i+1))
	}
	var upstreams, routes []string
	for i := range 8_000 {
		upstreams = append(upstreams, fmt.Sprintf("{name: u%d, servers: [\"http://h:%d\"]}", i, i+1))
		routes = append(routes, fmt.Sprintf("{name: r%d, path: /%d, upstream: xxxxxxxx}", i, i))
	}
	for what, text := range map[string]string{
		"long keys":        "x-a: &a {" + long + ": 1, ? \"" + long + "b\" : 2}\n" + one + "routes:\n" + aliases.String(),
		"a line break":     one + "\"a\\nb\": 1\nlog: {\"c\\nd\": 1}\n",
		"a long header":    one + "routes: [{name: a, request: {set: {" + long + ": b}}}]\n",
		"many servers":     "upstreams: [{name: a, servers: [\"" + strings.Join(servers, "\", \"") + "\", x y]}]\n",
		"many upstreams":   "upstreams: [" + strings.Join(upstreams, ", ") + "]\nroutes: [" + strings.Join(routes, ", ") + "]\n",
		"a long upstream":  one + "routes: [{name: a, upstream: " + long + "}]\n",
		"a long list item": one + "trusted_proxies: " + long + "\n",
	} {
		start := time.Now()
		_, faults := load(t, text)
		if faults == nil {
			t.Errorf("%s: no faults", what)
		}
		for _, f := range faults {
			if got := f.Error(); len(got) > 2000 || strings.Contains(got, "\n") {
				t.Errorf("%s: a fault has %d bytes and %d line breaks: %.200q", what, len(got), strings.Count(got, "\n"), got)
			}
		}
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s took %v", what, d)
		}
	}
}
