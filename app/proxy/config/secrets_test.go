package config_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

// A secret that is written in the wrong place or form is never shown: neither in a fault,
// nor in the line of the file that is shown with it.
func TestH4_FaultsShowNoMisplacedSecret(t *testing.T) {
	folder(t)
	for what, text := range map[string]string{
		"no blank after the colon":       one + "routes: [{name: a, request: {set: {X-Api-Key:hunter2}}}]",
		"an equals sign":                 one + `routes: [{name: a, request: {set: {"X-Foo=hunter2": y}}}]`,
		"a second field":                 one + "routes: [{name: a, request: {set: {X-Api-Key:hunter2, X-Foo:hunter2}}}]",
		"a duplicate":                    one + "routes: [{name: a, request: {set: {X-Foo:hunter2, X-Foo:hunter2}}}]",
		"a response":                     one + `routes: [{name: a, response: {set: {"X-Foo:hunter2": y}}}]`,
		"telemetry":                      one + `telemetry: {otlp: {headers: {"X-Foo:hunter2": y}}}`,
		"an explicit key":                one + `telemetry: {otlp: {headers: {? "X-Foo:hunter2" : y}}}`,
		"a header's file":                one + `telemetry: {otlp: {headers_from_file: {"X-Foo:hunter2": y}}}`,
		"a blank in a name":              one + `routes: [{name: a, request: {set: {"Bearer hunter2": y}}}]`,
		"an unknown field":               one + "fleet: {redis: {addresses: [\"h:1\"], password:hunter2}}",
		"the query of a server":          `upstreams: [{name: a, servers: ["http://h?api_key=hunter2"]}]`,
		"the query of a single server":   `upstreams: [{name: a, servers: "http://h?api_key=hunter2"}]`,
		"a query after a path":           `upstreams: [{name: a, servers: ["http://h/x?a b=hunter2"]}]`,
		"a fragment":                     `upstreams: [{name: a, servers: ["http://h#hunter2"]}]`,
		"a query without a scheme":       `upstreams: [{name: a, servers: ["h:80?api_key=hunter2"]}]`,
		"the query of an endpoint":       one + `telemetry: {otlp: {endpoint: "http://h?token=hunter2"}}`,
		"a password without a user":      one + `fleet: {redis: {addresses: ["hunter2@h:6379"]}}`,
		"a password with a slash":        one + `fleet: {redis: {addresses: ["hunter2/x@h:6379"]}}`,
		"a token of NATS":                one + `jobs: {nats: ["nats://hunter2@h:4222"]}`,
		"a header instead of its file":   one + "routes: [{name: a, request: {set_from_file: {Authorization: \"Bearer hunter2\"}}}]",
		"a token instead of its file":    one + "admin: {address: \":1\", token_file: hunter2}",
		"a token with dots and a blank":  one + "admin: {address: \":1\", token_file: \"Bearer hunter2.a.b\"}",
		"a password instead of its file": one + "fleet: {redis: {addresses: [\"h:1\"], username: a, password_file: hunter2}}",
		"a token of jobs":                one + "jobs: {dir: j, token_file: hunter2}",
		"credentials of jobs":            one + "jobs: {nats: [\"nats://h:1\"], credentials_file: hunter2}",
		"a value on two lines":           one + "routes: [{name: a, request: {set: {X: \"sec\n  hunter2 x\", bad key: 1}}}]",
		"another one":                    one + "routes: [{name: a, request: {set: {X: 'it''s\n  hunter2 x', bad key: 1}}}]",
		"a plain value on three lines":   one + "routes: [{name: a, request: {set: {X: sec\n  x\n  hunter2 x, bad key: 1}}}]",
		"a block":                        one + "routes:\n- name: a\n  request:\n    set:\n      X: | # c\n        a\n        hunter2\n\t    bad key: 1",
		"an unknown field on two lines":  one + "routes: [{name: a, zzz: \"\\x41\n  hunter2\", path: x}]",
		"a header of telemetry":          one + "telemetry: {otlp: {headers_from_file: {A: hunter2}}}",
	} {
		_, faults := load(t, text)
		if faults == nil {
			t.Errorf("%s: no faults", what)
		}
		if got := faults.Text(); strings.Contains(got, "hunter2") {
			t.Errorf("%s: the faults contain the secret:\n%s", what, got)
		}
	}
}

// The fault of a name with a value stuck to it says what is missing.
func TestH4_KeyWithoutABlankSaysSo(t *testing.T) {
	folder(t)
	_, faults := load(t, one+"routes: [{name: a, request: {set: {X-Api-Key:hunter2}}}]\n")
	want := "weir.yaml:2:36: routes[0].request.set.X-Api-Key…: must be a name, a colon, a blank and a value; put a blank after the colon, such as set: {X-Site: shop}\n" +
		"    routes: [{name: a, request: {set: {X-Api-Key…\n" +
		"                                       ^\n"
	if got := faults.Text(); got != want {
		t.Errorf("faults =\n%s\nwant\n%s", got, want)
	}
}

// A name that looks like that of a file is shown, because a wrong name cannot be
// corrected otherwise.
func TestH4_MissingFilesOfSecretsAreNamed(t *testing.T) {
	folder(t)
	for _, name := range []string{"admin.token", "secrets/admin"} {
		_, faults := loadFrom(t, config.Source{Flags: config.Flags{Upstream: []string{"http://a"}, Admin: ":1", AdminTokenFile: name}})
		if !strings.Contains(faults.Error(), name) {
			t.Errorf("faults = %v; want %s", faults, name)
		}
	}
}
