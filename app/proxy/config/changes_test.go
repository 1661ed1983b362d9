package config_test

import (
	"fmt"
	"path/filepath"
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
		{`["http://127.0.0.1:2"]`, `["http://127.0.0.1:2", "http://127.0.0.1:4"]`, "[upstreams[b].servers[http://127.0.0.1:4]] [] []"},
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

// Every setting that names a file is found, with its item's name or index.
func TestH4_FilesThatSettingsName(t *testing.T) {
	dir := folder(t)
	c, faults := load(t, `
listen: [{address: "127.0.0.1:1", tls: {cert: ../server.pem, key: ../server.key, more: [{cert: ../shop.pem, key: ../shop.key}]}}]
error_pages: [{html: ../error.html}]
fleet: {redis: {addresses: ["127.0.0.1:2"], tls: {ca: ../server.pem}}}
upstreams: [{name: a, servers: ["http://127.0.0.1:1"]}]
routes: [{name: r, upstream: a, request: {set_from_file: {x-key: ../good.token}}}]
`)
	if faults != nil {
		t.Fatal(faults.Text())
	}
	want := map[string]string{
		"listen[127.0.0.1:1].tls.cert": "server.pem", "listen[127.0.0.1:1].tls.key": "server.key",
		"listen[127.0.0.1:1].tls.more[" + filepath.Join(dir, "shop.pem") + "].cert": "shop.pem",
		"listen[127.0.0.1:1].tls.more[" + filepath.Join(dir, "shop.pem") + "].key":  "shop.key",
		"error_pages[0].html": "error.html", "fleet.redis.tls.ca": "server.pem", "routes[r].request.set_from_file.X-Key": "good.token",
	}
	got := c.Files()
	for setting, name := range want {
		if got[setting] != filepath.Join(dir, name) {
			t.Errorf("Files()[%q] = %q; want %s", setting, got[setting], name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("Files() = %v; want %d of them", got, len(want))
	}
}
