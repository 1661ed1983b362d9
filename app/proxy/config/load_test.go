package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/config"
)

// The three flags on the front page are a complete configuration.
func TestThreeFlagsAreEnough(t *testing.T) {
	c := must(t, config.Source{Flags: config.Flags{
		Listen: []string{"127.0.0.1:8080"}, Upstream: []string{"http://127.0.0.1:3000"}, Admin: "127.0.0.1:9090",
	}})
	g, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Routes) != 1 || len(g.Upstreams) != 1 {
		t.Fatalf("Gateway has %d routes, %d upstreams; want 1, 1", len(g.Routes), len(g.Upstreams))
	}
	r, u := g.Routes[0], g.Upstreams[0]
	for _, tt := range []struct {
		what      string
		got, want any
	}{
		{"listen", c.Listen[0].Address, "127.0.0.1:8080"},
		{"admin", c.Admin.Address, "127.0.0.1:9090"},
		{"server", u.Servers[0], "http://127.0.0.1:3000"},
		{"own ttl", r.Cache.TTL, time.Duration(0)},
		{"heuristic", r.Cache.Heuristic, 0.0},
		{"stale offline", r.Cache.StaleOffline, time.Duration(0)},
		{"forced", r.Cache.Force, false},
		{"rate", r.Rate == nil, true},
		{"route's cap", r.Concurrency, 0},
		{"cap", u.Concurrency, 256},
		{"queue", u.Queue, 0},
		{"queue wait", u.QueueWait, 10 * time.Second},
		{"attempts", u.Retry.Attempts, 1},
		{"timeout", r.Timeout, 60 * time.Second},
		{"body", r.MaxBody, int64(0)},
		{"trusted", len(g.TrustedProxies), 0},
		{"memory", c.Cache.Memory, config.Size(64 << 20)},
		{"header timeout", time.Duration(c.Server.ReadHeaderTimeout), 10 * time.Second},
		{"drain", time.Duration(c.Drain.Timeout), 30 * time.Second},
		{"warnings", len(c.Warnings), 0},
	} {
		if tt.got != tt.want {
			t.Errorf("%s = %v; want %v", tt.what, tt.got, tt.want)
		}
	}
}

func TestFlagsWinOverVariablesOverFile(t *testing.T) {
	folder(t)
	write(t, "weir.yaml", one+"drain: {delay: 1s, timeout: 1s}\nlog: {level: warn}\ntrusted_proxies: [10.0.0.1]\n")
	c := must(t, config.Source{
		File: "weir.yaml",
		Env: []string{
			"WEIR_DRAIN_DELAY=2s", "WEIR_DRAIN_TIMEOUT=2s", "WEIR_TRUSTED_PROXIES= 10.0.0.2, 10.0.0.3 ,",
			"WEIR_UPSTREAM=http://127.0.0.1:2,http://127.0.0.1:3", "WEIR_CONCURRENCY=none", "WEIR_ADMIN=", "HOME=x",
		},
		Flags: config.Flags{DrainDelay: "3s", Concurrency: "7"},
	})
	for _, tt := range []struct{ what, got, want string }{
		{"a flag over both", c.Drain.Delay.String(), "3s"},
		{"a variable over the file", c.Drain.Timeout.String(), "2s"},
		{"the file", c.Log.Level, "warn"},
		{"a list", strings.Join(c.TrustedProxies, " "), "10.0.0.2 10.0.0.3"},
		{"servers", c.Upstreams[0].Servers[0].URL + " " + c.Upstreams[0].Servers[1].URL, "http://127.0.0.1:2 http://127.0.0.1:3"},
		{"the upstream's name", c.Upstreams[0].Name, "a"},
		{"its cap", c.Upstreams[0].Concurrency.String(), "7"},
		{"an empty variable", c.Admin.Address, ""},
	} {
		if tt.got != tt.want {
			t.Errorf("%s = %q; want %q", tt.what, tt.got, tt.want)
		}
	}
}

// A setting that a flag changes in an aliased or merged section affects only that
// section.
func TestFlagsOverAliases(t *testing.T) {
	folder(t)
	write(t, "weir.yaml", one+"x-d: &d {delay: 1s, timeout: 2s}\ndrain: *d\nx-l: &l {level: warn, slow: 3s}\nlog: {<<: *l}\n")
	c := must(t, config.Source{File: "weir.yaml", Flags: config.Flags{DrainDelay: "5s", LogLevel: "debug"}})
	if c.Drain.Delay.String() != "5s" || c.Drain.Timeout.String() != "2s" {
		t.Errorf("drain = %v, %v; want 5s, 2s", c.Drain.Delay, c.Drain.Timeout)
	}
	if c.Log.Level != "debug" || c.Log.Slow.String() != "3s" {
		t.Errorf("log = %v, %v; want debug, 3s", c.Log.Level, c.Log.Slow)
	}
}

func TestVariableNamesTheFile(t *testing.T) {
	folder(t)
	write(t, "a.yaml", one+"name: a\n")
	write(t, "b.yaml", one+"name: b\n")
	env := []string{"WEIR_CONFIG=a.yaml"}
	if c := must(t, config.Source{Env: env}); c.Name != "a" {
		t.Errorf("name with WEIR_CONFIG = %q; want a", c.Name)
	}
	if c := must(t, config.Source{Env: env, File: "b.yaml"}); c.Name != "b" {
		t.Errorf("name with both = %q; want b", c.Name)
	}
}

// An error in a flag or a variable names the flag or variable.
func TestFaultsOfFlagsAndVariables(t *testing.T) {
	folder(t)
	write(t, "two.yaml", "upstreams: [{name: a, servers: [\"http://127.0.0.1:1\"]}, {name: b, servers: [\"http://127.0.0.1:2\"]}]\n"+
		"listen: [{address: \":1\"}]\nroutes: [{name: a, upstream: a}]\n")
	for _, tt := range []struct {
		source config.Source
		want   string
	}{
		{config.Source{Flags: config.Flags{Upstream: []string{"http://a"}, DrainDelay: "5"}},
			`--drain-delay: drain.delay: "5" has no unit; did you mean "5s"?`},
		{config.Source{Flags: config.Flags{Upstream: []string{"http://a", "b:80"}}},
			`--upstream: upstreams[0].servers[1]: "b:80" must be http://host:port, https://host:port, h2c://host:port or unix:/path; did you mean "http://b:80"?`},
		{config.Source{Flags: config.Flags{Upstream: []string{"http://a"}}, Env: []string{"WEIR_LISTEN=:1,8080"}},
			`WEIR_LISTEN: listen[1].address: "8080" must be host:port, with a port from 0 to 65535; did you mean "127.0.0.1:8080"?`},
		{config.Source{Flags: config.Flags{Upstream: []string{"http://a"}, Admin: "0.0.0.0:9"}},
			`--admin: admin.address: "0.0.0.0:9" is not on loopback, and needs admin.token_file`},
		{config.Source{Flags: config.Flags{Upstream: []string{"http://a"}, TLSCert: "x.pem"}},
			`--tls-cert: listen[0].tls.key: is missing`},
		{config.Source{File: "two.yaml", Flags: config.Flags{Upstream: []string{"http://c"}, TLSKey: "k"}},
			"--tls-key: \"k\" applies only to --listen; the file's listeners have their own setting\n" +
				"--upstream: \"http://c\" applies to a single upstream, but the file has several"},
		{config.Source{}, `upstreams: is missing: name the server behind the proxy, here or with --upstream URL`},
		{config.Source{File: "no.yaml", Flags: config.Flags{Observe: "yes"}},
			"--observe: observe: \"yes\" must be true or false; did you mean \"true\"?\nno.yaml: cannot be read: no such file or directory"},
	} {
		_, faults := loadFrom(t, tt.source)
		if faults == nil || faults.Error() != tt.want {
			t.Errorf("Load(%+v) = %v; want %s", tt.source, faults, tt.want)
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"WEIR_LISEN=x", `WEIR_LISEN: unknown variable; did you mean "WEIR_LISTEN"?`},
		{"WEIR_DRAIN_TIMEOUTS=x", `WEIR_DRAIN_TIMEOUTS: unknown variable; did you mean "WEIR_DRAIN_TIMEOUT"?`},
		{"WEIR_PORT=8080", "unknown variable"},
		{"WEIR_COLOUR=sesame", "unknown variable; the variables are WEIR_CONFIG, "},
		{"WEIR_MAVEN=1", ""},
		{"WEIR_JOBS_ADMIN=http://127.0.0.1:9090", ""}, // used by weir jobs
		{"WEIR_JOBS_TOKEN_FILE=token", ""},
		{"WEIR_TEST_ENGINES=all", ""},
		{"WEIR_TEST_POSTGRES=x", ""},
		{"WEIR_LAB_ROLE=x", ""},
		{"WEIR_PROMISES_CELL=x", ""},
		// A Kubernetes service named weir, and one named weir-admin.
		{"WEIR_SERVICE_HOST=10.0.0.1", ""},
		{"WEIR_SERVICE_PORT_HTTP=80", ""},
		{"WEIR_PORT=tcp://10.0.0.1:80", ""},
		{"WEIR_PORT_80_TCP_ADDR=10.0.0.1", ""},
		{"WEIR_ADMIN_SERVICE_HOST=10.0.0.1", ""},
		{"WEIR_ADMIN_PORT=tcp://10.0.0.1:80", ""},
		{"weir_listen=x", ""},
		{"WEIRD=1", ""},
	} {
		_, faults := loadFrom(t, config.Source{Env: []string{tt.env}})
		got := strings.TrimPrefix(faults.Error(), "upstreams: is missing")
		if tt.want == "" && len(faults) != 1 || tt.want != "" && (len(faults) != 2 || !strings.Contains(got, tt.want)) {
			t.Errorf("Load with %s = %v; want %q", tt.env, faults, tt.want)
		}
		if strings.Contains(got, "sesame") {
			t.Errorf("the fault of %s contains its value", tt.env)
		}
	}
}

// File names are relative to the file that contains them. File names in flags are
// relative to the working directory.
func TestFilesAreRelativeToWhereTheyAreNamed(t *testing.T) {
	dir := folder(t)
	write(t, filepath.Join(dir, "weir.yaml"), one+"admin: {address: \"127.0.0.1:1\", token_file: good.token}\n")
	c := must(t, config.Source{File: "../weir.yaml", Flags: config.Flags{
		Listen: []string{":8443"}, TLSCert: "../server.pem", TLSKey: "../server.key",
	}})
	if want := filepath.Join(dir, "good.token"); c.Admin.TokenFile != want {
		t.Errorf("token_file = %q; want %q", c.Admin.TokenFile, want)
	}
	if want := filepath.Join(dir, "server.pem"); c.Listen[0].TLS.Cert != want {
		t.Errorf("cert = %q; want %q", c.Listen[0].TLS.Cert, want)
	}
	token, err := c.AdminToken()
	if token != "0123456789abcdef" || err != nil {
		t.Errorf("AdminToken = %q, %v", token, err)
	}
	if strings.Contains(string(c.YAML()), token) {
		t.Error("YAML() contains the token")
	}
}

func TestWarnings(t *testing.T) {
	dir := folder(t)
	for _, name := range []string{"good.token", "server.key"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, faults := load(t, one+`admin: {token_file: ../good.token}
listen: [{address: ":2", tls: {cert: ../server.pem, key: ../server.key, more: [{cert: ../old.pem, key: ../old.key}]}}]
routes:
  - {name: a}
  - {name: b}
  - {name: c, path_match: normalized}
  - {name: d, path_match: normalized}
  - {name: e}
`)
	if faults != nil {
		t.Fatalf("faults: %s", faults.Text())
	}
	want := strings.ReplaceAll(`weir.yaml:2:21: admin.token_file: "DIR/good.token" can be read by every user of this machine; run chmod 600 on it
weir.yaml:2:21: admin.token_file: "DIR/good.token" has no effect without admin.address
weir.yaml:3:58: listen[0].tls.key: "DIR/server.key" can be read by every user of this machine; run chmod 600 on it
weir.yaml:3:87: listen[0].tls.more[0].cert: expired on 2004-01-10; clients reject it
weir.yaml:6:5: routes[1]: gets no requests, because routes[0] matches all of them first
weir.yaml:8:5: routes[3]: gets no requests, because routes[2] matches all of them first
weir.yaml:9:5: routes[4]: gets no requests, because routes[0] matches all of them first`, "DIR", dir)
	if got := c.Warnings.Error(); got != want {
		t.Errorf("Warnings =\n%s\nwant\n%s", got, want)
	}
}

// The default of max_object adapts to a small cache.
func TestSmallCache(t *testing.T) {
	folder(t)
	c, faults := load(t, one+"cache: {memory: 4MiB}\n")
	if faults != nil || c.Routes[0].Cache.MaxObject != 2<<20 {
		t.Errorf("max_object = %v, %v; want 2MiB", c.Routes[0].Cache.MaxObject, faults)
	}
}

// A configuration that is written and read back is the same.
func TestYAMLIsReadToTheSame(t *testing.T) {
	example(t)
	c := must(t, config.Source{File: "weir.example.yaml"})
	write(t, "again.yaml", string(c.YAML()))
	again := must(t, config.Source{File: "again.yaml"})
	if !reflect.DeepEqual(c, again) {
		t.Errorf("Load(YAML()) =\n%s\nwant\n%s", again.YAML(), c.YAML())
	}
}

// A configuration file cannot cause unbounded work.
func TestLimitsOnFiles(t *testing.T) {
	folder(t)
	bomb := "x-a: &a [" + strings.Repeat("GET,", 2000) + "]\nx-m: &m {name: a, methods: *a}\n" + one + "routes: [" + strings.Repeat("*m,", 2000) + "]\n"
	merges := "x-0: &a0 {name: a}\n"
	for i := range 40 {
		merges += fmt.Sprintf("x-%d: &a%d {<<: [*a%d, *a%d]}\n", i+1, i+1, i, i)
	}
	for _, tt := range []struct{ what, text, want string }{
		{"a large file", strings.Repeat("# 3456789\n", config.MaxFileBytes/10+1), "weir.yaml: is larger than 1MiB"},
		{"aliases of lists", bomb, "is one value too many: the limit is 100000, with aliases expanded"},
		{"merges of merges", merges + one + "routes: [{<<: *a40}]\n", "is one value too many"},
		{"depth", one + "routes: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "must be a section"},
		{"more depth", one + "routes: " + strings.Repeat("[", 100_000), "exceeded max depth"},
		{"unknown fields", one + strings.Repeat("a: 1\n", 10), "is a duplicate"},
	} {
		start := time.Now()
		_, faults := load(t, tt.text)
		if !strings.Contains(faults.Error(), tt.want) {
			t.Errorf("%s: faults %.300v; want %q", tt.what, faults, tt.want)
		}
		if d := time.Since(start); d > 20*time.Second {
			t.Errorf("%s took %v", tt.what, d)
		}
	}
}

func TestManyFaultsAreCut(t *testing.T) {
	folder(t)
	var text strings.Builder
	text.WriteString(one)
	for i := range 5000 {
		fmt.Fprintf(&text, "field%d: 1\n", i)
	}
	_, faults := load(t, text.String())
	if len(faults) != config.MaxFaults+1 || !strings.Contains(faults[config.MaxFaults].Problem, "4900 more faults") {
		t.Errorf("%d faults, the last %v; want %d and the number of omitted faults", len(faults), faults[len(faults)-1], config.MaxFaults)
	}
}

func TestFaultHasItsParts(t *testing.T) {
	folder(t)
	_, faults := load(t, one+"drain:\n  timeout: 60 # long\n")
	want := config.Fault{
		File: "weir.yaml", Line: 3, Column: 12, Field: "drain.timeout", Value: "60",
		Problem: "has no unit", Suggestion: "60s", Snippet: "  timeout: 60 # long",
	}
	if len(faults) != 1 || *faults[0] != want {
		t.Errorf("faults = %+v; want %+v", faults, want)
	}
}
