package config_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/weirhttp"
)

// H32: every configuration in the how-to about reads loads. A block without upstreams is
// a part of a route.
func TestH32_HowtoOfReadsLoads(t *testing.T) {
	text, err := os.ReadFile("../../../docs/howto/cache-graphql-and-search.md")
	if err != nil {
		t.Fatal(err)
	}
	folder(t)
	if err := os.Mkdir("secrets", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, "secrets/upstream.key", "0123456789abcdef")
	n := 0
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		if !strings.Contains(block, "upstreams:") {
			block = "upstreams: [{name: a, servers: [\"http://127.0.0.1:1\"]}]\nroutes:\n  - name: all\n    " +
				strings.ReplaceAll(strings.TrimSuffix(block, "\n"), "\n", "\n    ") + "\n"
		}
		c, faults := load(t, block)
		if faults != nil {
			t.Errorf("%s\ndoes not load:\n%s", block, faults.Text())
			continue
		}
		if _, err := c.Gateway(); err != nil {
			t.Errorf("%s\nGateway = %v", block, err)
		}
		n++
	}
	if n < 5 {
		t.Errorf("%d configurations; want at least 5", n)
	}
}

// H32: the settings reach the gateway, and the jobs of the route.
func TestH32_ReadsReachTheGateway(t *testing.T) {
	t.Chdir(t.TempDir())
	c, faults := load(t, `
upstreams: [{name: a, servers: ["http://127.0.0.1:1"]}]
jobs: {dir: jobs}
routes:
  - name: search
    async: {}
    reads:
      - methods: [POST, QUERY]
        types: [application/json]
        compare: json
        ignore: [/user]
        only_if: ["/t = 0 or \"a or b\" or absent"]
        max_body: 1MiB
`)
	if faults != nil {
		t.Fatal(faults.Text())
	}
	g, err := c.Gateway()
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.JobsAccess()
	if err != nil {
		t.Fatal(err)
	}
	for what, rules := range map[string][]weirhttp.ReadRule{"gateway": g.Routes[0].Reads, "jobs": a.Routes["search"].Reads} {
		if len(rules) != 1 {
			t.Fatalf("%s: Reads = %+v; want one rule", what, rules)
		}
		r := rules[0]
		if strings.Join(r.Methods, " ") != "POST QUERY" || r.Types[0] != "application/json" || r.Compare != weirhttp.CompareJSON || r.Ignore[0] != "/user" ||
			r.MaxBody != 1<<20 || len(r.Only) != 1 || r.Only[0].Field != "/t" || !r.Only[0].Absent ||
			strings.Join(r.Only[0].Values, "|") != `0|"a or b"` {
			t.Errorf("%s: rule = %+v", what, r)
		}
	}
}

// An empty list of error_fields turns the default of GraphQL off; a missing one does not.
func TestH32_ErrorFieldsReachTheGateway(t *testing.T) {
	t.Chdir(t.TempDir())
	for line, want := range map[string][]string{"": nil, "error_fields: []": {}, "error_fields: [/errors, /status/failed]": {"/errors", "/status/failed"}} {
		c, faults := load(t, `
upstreams: [{name: a, servers: ["http://127.0.0.1:1"]}]
routes:
  - name: search
    reads:
      - types: [application/json]
        compare: json
        graphql: true
        `+line+`
`)
		if faults != nil {
			t.Fatal(faults.Text())
		}
		g, err := c.Gateway()
		if err != nil {
			t.Fatal(err)
		}
		if got := g.Routes[0].Reads[0].ErrorFields; !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: ErrorFields = %#v; want %#v", line, got, want)
		}
	}
}
