package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/command"
)

// file writes a configuration and returns its name.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestProxyCheckSaysWhatItDoes(t *testing.T) {
	name := file(t, `
listen:
  - address: 0.0.0.0:8080
    h2c: true
  - address: 127.0.0.1:8081
    proxy_protocol: true
trusted_proxies: [10.0.0.0/8]
admin: {address: 127.0.0.1:9090}
upstreams:
  - name: shop
    servers: [http://10.0.0.1:3000, http://10.0.0.2:3000, http://10.0.0.3:3000, http://10.0.0.4:3000]
    concurrency: 1
  - name: reports
    servers: [http://10.0.0.9:3000]
routes:
  - name: reports
    hosts: [reports.example]
    path: /daily
    methods: [GET, HEAD]
    upstream: reports
  - name: rest
    upstream: shop
    observe: true
`)
	s := newSession()
	if code := s.run("proxy", "check", "--config", name); code != command.ExitOK {
		t.Fatalf("exit code %d; stderr: %s", code, s.stderr.String())
	}
	want := "OK: " + name + `
  listens    http://0.0.0.0:8080                                                    HTTP/1.1 and HTTP/2
             http://127.0.0.1:8081                                                  HTTP/1.1, behind the PROXY protocol
  admin      http://127.0.0.1:9090                                                  this machine only
  console    http://127.0.0.1:9090/console/                                         keys are digests
  upstreams  shop: http://10.0.0.1:3000, http://10.0.0.2:3000 and 2 more            1 call at once, others wait
             reports: http://10.0.0.9:3000                                          256 calls at once, others wait
  routes     reports: GET,HEAD reports.example/daily → reports                      coalesces, caches
             rest: / → shop                                                         observes
  sharing    reports: where a response states no lifetime, clients at different addresses do not share its call; coalesce: any_client lets them
`
	if got := words(s.stdout.String()); got != words(want) || s.stderr.String() != "" {
		t.Errorf("stdout:\n%s\nstderr: %s\nwant:\n%s", s.stdout.String(), s.stderr.String(), want)
	}
}

// words are the lines of a text without their columns.
func words(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(out, "\n")
}

func TestProxyFaultsAreToldAllAtOnceAndInPlace(t *testing.T) {
	name := file(t, "listen: [{adress: 127.0.0.1:1}]\nupstreams: [{name: a, servers: [http://h:1], concurrency: none of it}]\n")
	for _, args := range [][]string{{"proxy", "check"}, {"proxy"}} {
		s := newSession()
		if code := s.run(append(args, "-c", name, "--drain-timeout", "soon")...); code != command.ExitUsage {
			t.Errorf("%v: exit code %d; want %d", args, code, command.ExitUsage)
		}
		for _, want := range []string{"--drain-timeout", name + ":1:", "adress", `"address"`, name + ":2:", "concurrency", "^"} {
			if !strings.Contains(s.stderr.String(), want) {
				t.Errorf("%v: stderr lacks %q:\n%s", args, want, s.stderr.String())
			}
		}
		if s.stdout.String() != "" {
			t.Errorf("%v: stdout = %q; want nothing", args, s.stdout.String())
		}
	}
}

// A program that reads the result of the check gets it for an invalid configuration, too,
// and none of its secrets.
func TestH4_CheckWritesFaultsAsJSON(t *testing.T) {
	name := file(t, "listen: [{adress: 127.0.0.1:1}]\nupstreams: [{name: a, servers: ['http://user:sesame@h:1/%'], concurrency: none of it}]\n")
	s := newSession()
	if code := s.run("proxy", "check", "--json", "-c", name); code != command.ExitUsage {
		t.Errorf("exit code %d; want %d", code, command.ExitUsage)
	}
	type fault struct {
		File, Field, Value, Problem, Suggestion string
		Line, Column                            int
	}
	var got struct {
		Source string
		Errors []fault
	}
	if err := json.Unmarshal([]byte(s.stdout.String()), &got); err != nil || got.Source != name {
		t.Fatalf("%v in %s; want JSON about %s", err, s.stdout.String(), name)
	}
	found := false
	for _, f := range got.Errors {
		found = found || f.Line == 1 && f.Column > 1 && f.File == name && strings.Contains(f.Field, "adress") && f.Suggestion == "address"
		if f.Problem == "" || !strings.Contains(s.stderr.String(), f.Problem) {
			t.Errorf("%+v is not in the text:\n%s", f, s.stderr.String())
		}
	}
	if len(got.Errors) < 3 || !found {
		t.Errorf("errors = %+v; want all, with the mistyped setting and its place", got.Errors)
	}
	if strings.Contains(s.stdout.String()+s.stderr.String(), "sesame") {
		t.Errorf("the output has a password:\n%s%s", s.stdout.String(), s.stderr.String())
	}

	s = newSession()
	if code := s.run("proxy", "check", "--json"); code != command.ExitUsage || !strings.Contains(s.stdout.String(), `"errors": [`) {
		t.Errorf("without a configuration: exit code %d, stdout %q; want 2 and the error", code, s.stdout.String())
	}
}

func TestProxyWithoutAnUpstreamSaysWhatIsMissing(t *testing.T) {
	s := newSession()
	if code := s.run("proxy"); code != command.ExitUsage || !strings.Contains(s.stderr.String(), "upstream") || !strings.Contains(s.stderr.String(), "docs/reference/proxy-configuration.md") {
		t.Errorf("exit code %d, stderr %q; want %d, what is missing, and where the help is", code, s.stderr.String(), command.ExitUsage)
	}
}
