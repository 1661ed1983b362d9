package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

func TestCompareNamesWhatChangedAndNoValues(t *testing.T) {
	folder(t)
	const base = `
listen: [{address: "127.0.0.1:1"}, {address: "127.0.0.1:2"}]
log: {level: info}
upstreams: [{name: a, servers: ["http://127.0.0.1:1"]}, {name: b, servers: ["http://127.0.0.1:2"]}]
routes:
  - {name: r, upstream: a, request: {set: {x-key: sesame}}}
  - {name: s, upstream: b, path: /s}
`
	for _, c := range []struct{ old, new, want string }{
		{"", "", "[] [] []"},
		{"level: info", "level: warn", "[] [] [log.level]"},
		{"sesame", "hunter2", "[] [] [routes[r].request.set]"},
		{"upstream: a,", "upstream: a, cache: {ttl: 1m, vary: [Accept]}, rate: {requests: 5},", "[routes[r].rate] [] [routes[r].cache.ttl routes[r].cache.vary]"},
		{"name: s,", "name: t,", "[routes[t]] [routes[s]] []"},
		{`"127.0.0.1:2"}]` + "\nlog", `"127.0.0.1:3"}]` + "\nlog", "[listen[127.0.0.1:3]] [listen[127.0.0.1:2]] []"},
		{`["http://127.0.0.1:2"]`, `["http://127.0.0.1:2", "http://127.0.0.1:4"]`, "[] [] [upstreams[b].servers]"},
		{`{address: "127.0.0.1:1"}, {address: "127.0.0.1:2"}`, `{address: "127.0.0.1:2"}, {address: "127.0.0.1:1"}`, "[] [] [listen (order)]"},
		{"log:", "drain: {timeout: 5s}\nname: other\nlog:", "[] [] [drain.timeout name]"},
	} {
		was, faults := load(t, base)
		if faults != nil {
			t.Fatal(faults.Text())
		}
		is, faults := load(t, strings.Replace(base, c.old, c.new, 1))
		if faults != nil {
			t.Fatal(faults.Text())
		}
		got := config.Compare(was, is)
		if text := fmt.Sprint(got.Added, got.Removed, got.Changed); text != c.want {
			t.Errorf("%q to %q: Compare = %s; want %s", c.old, c.new, text, c.want)
		}
	}
}
