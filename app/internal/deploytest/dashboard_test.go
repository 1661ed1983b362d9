package deploytest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const dashboardFile = root + "deploy/grafana/weir.json"

// notShown lists metrics that the dashboard does not show, with the reason.
var notShown = map[string]string{
	"weir_fallback_requests_total":            "the console says when requests go to another upstream, and why",
	"weir_upstream_lookup_failures_total":     "addresses stay when a lookup fails, and the log has it",
	"weir_limit_storms_total":                 "the state is shown, and the log has the times",
	"weir_limit_late_total":                   "the reason for a storm, which is shown",
	"weir_idempotency_keys":                   "the size of the store is shown, and the console has its keys",
	"weir_idempotency_keys_limit":             "as above",
	"weir_server_weight":                      "set by the operator",
	"weir_server_head_seconds":                "the console's table of servers has it",
	"weir_server_kept_total":                  "the console's table of servers has the share of the calls that moved",
	"weir_server_moved_total":                 "the console's table of servers has the share of the calls that moved",
	"weir_server_failing":                     "penalized is what follows from it",
	"weir_hedges_total":                       "a few calls of a hundred; the how-to has the query",
	"weir_hedges_refused_total":               "as weir_hedges_total",
	"weir_hedges_delay_seconds":               "as weir_hedges_total",
	"weir_guard_calls_total":                  "the sum of loads and of the kinds that are shown",
	"weir_guard_evictions_total":              "a full cache is normal; the entries are shown",
	"weir_fast_requests_total":                "a detail of the hits, which are shown",
	"weir_uploads_reset_total":                "describes clients rather than the service",
	"weir_http_deadlines_total":               "of routes whose clients state a deadline; the 504 among the errors shows what matters",
	"weir_http_observed_total":                "observe mode lasts days, and the console shows what it has found",
	"weir_http_alone_total":                   "why requests share nothing, which the console shows with what to write",
	"weir_http_missed_total":                  "the rest of the requests that are shown",
	"weir_http_unanswered_total":              "it follows from the failures of calls, which are shown",
	"weir_http_left_midway_total":             "describes clients rather than the service",
	"weir_fleet_reads_blocked":                "rare, and included in the pending invalidations",
	"weir_fleet_replayed_invalidations_total": "the difference between the queued and the pending ones, which are shown",
}

type panel struct {
	ID          int
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Datasource  *struct{ Type, UID string }
	Targets     []struct {
		RefID, Expr string
		Datasource  struct{ UID string }
	}
	Panels []panel
}

type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Annotations   struct{ List []struct{ Expr string } }
	Templating    struct {
		List []struct {
			Name, Type, Definition string
			Query                  json.RawMessage
		}
	}
}

func openDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// flat returns all panels, including those in collapsed rows.
func (d dashboard) flat() (all []panel) {
	for _, p := range d.Panels {
		all = append(append(all, p), p.Panels...)
	}
	return all
}

// expressions returns the expressions of all panels, by location.
func (d dashboard) expressions() map[string]string {
	all := map[string]string{}
	for _, p := range d.flat() {
		for _, target := range p.Targets {
			all[fmt.Sprintf("panel %d %q, %s", p.ID, p.Title, target.RefID)] = target.Expr
		}
	}
	for i, a := range d.Annotations.List {
		all[fmt.Sprintf("annotation %d", i)] = a.Expr
	}
	return all
}

// The dashboard uses only metrics that the code exports, and shows all of them.
func TestC8_DashboardAndCodeNameTheSame(t *testing.T) {
	b, d := contents(t), openDashboard(t)
	shown := map[string]bool{}
	all := d.expressions()
	if len(all) < 50 {
		t.Fatalf("%d expressions; want all of them", len(all))
	}
	for where, expr := range all {
		for _, fault := range b.check(expr) {
			t.Errorf("%s: %s\n%s", where, fault, expr)
		}
		named, _ := uses(expr)
		for _, u := range named {
			shown[baseName(b.code, u.name)] = true
		}
	}
	for name := range b.code {
		if _, ok := notShown[name]; ok == shown[name] {
			t.Errorf("%s: shown %t, in the exceptions %t; want exactly one of the two", name, shown[name], ok)
		}
	}
	for name := range notShown {
		if _, ok := b.code[name]; !ok {
			t.Errorf("the exception %s is not a metric", name)
		}
	}
}

// The values of the dashboard's variables come from existing metrics and labels.
func TestC8_VariablesOfTheDashboard(t *testing.T) {
	b := contents(t)
	values := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	have := map[string]string{}
	for _, v := range openDashboard(t).Templating.List {
		have[v.Name] = v.Type
		if v.Type != "query" {
			continue
		}
		m := values.FindStringSubmatch(v.Definition)
		var query struct{ Query string }
		if err := json.Unmarshal(v.Query, &query); m == nil || err != nil || query.Query != v.Definition {
			t.Errorf("$%s: %q and %s, %v; want the same label_values(metric, label) twice", v.Name, v.Definition, v.Query, err)
			continue
		}
		for _, fault := range b.check(m[1]) {
			t.Errorf("$%s: %s", v.Name, fault)
		}
		if named, _ := uses(m[1]); named[0].name != "" {
			if labels, _ := b.labels(named[0].name); !slices.Contains(labels, m[2]) {
				t.Errorf("$%s: %s has no label %s", v.Name, named[0].name, m[2])
			}
		}
	}
	want := map[string]string{"datasource": "datasource", "job": "query", "instance": "query", "route": "query", "guard": "query"}
	if !maps.Equal(have, want) {
		t.Errorf("variables %v; want %v", have, want)
	}
	used := regexp.MustCompile(`\$\{?(\w+)\}?`)
	for _, m := range used.FindAllStringSubmatch(read(t, dashboardFile), -1) {
		if _, ok := have[m[1]]; !ok && !strings.HasPrefix(m[1], "__") {
			t.Errorf("$%s is used but is not a variable", m[1])
		}
	}
}

// This test finds faults that Grafana would silently correct or display wrongly.
func TestDashboardIsInOrder(t *testing.T) {
	d := openDashboard(t)
	if d.UID != "weir" || d.Title != "weir" || d.SchemaVersion < 38 {
		t.Errorf("uid %q, title %q, schema %d; want weir, weir, and Grafana 10's 38", d.UID, d.Title, d.SchemaVersion)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.flat() {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%q: id %d is used twice, or 0", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Title == "" || p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q at %+v; want a title and a position", p.ID, p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[at]; ok {
					t.Fatalf("%q and %q are both at %v", p.Title, other, at)
				}
				taken[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Datasource == nil || p.Datasource.UID != "${datasource}" {
			t.Errorf("%q: %d expressions with %+v; want some of ${datasource}", p.Title, len(p.Targets), p.Datasource)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Datasource.UID != "${datasource}" {
				t.Errorf("%q: %s of %s is a duplicate, or has another data source", p.Title, target.RefID, target.Datasource.UID)
			}
			refs[target.RefID] = true
		}
	}
}

// All expressions parse once Grafana's variables are replaced.
func TestPromtoolTakesTheDashboard(t *testing.T) {
	type record struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	type group struct {
		Name  string   `yaml:"name"`
		Rules []record `yaml:"rules"`
	}
	g := group{Name: "dashboard"}
	all := openDashboard(t).expressions()
	for i, where := range slices.Sorted(maps.Keys(all)) {
		expr := strings.ReplaceAll(all[where], "$__rate_interval", "5m")
		g.Rules = append(g.Rules, record{fmt.Sprintf("panel:expression:%d", i), regexp.MustCompile(`\$\w+`).ReplaceAllString(expr, ".*")})
	}
	b, err := yaml.Marshal(map[string][]group{"groups": {g}})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", name)
}
