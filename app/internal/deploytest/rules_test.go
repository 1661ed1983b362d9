package deploytest_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

const (
	root      = "../../../"
	rulesFile = root + "deploy/prometheus/weir.rules.yml"
	testsFile = root + "deploy/prometheus/weir.rules.test.yml"
	howtoFile = root + "docs/howto/alerts-that-matter.md"
	runbook   = "https://github.com/weir-go/weir/blob/main/docs/howto/alerts-that-matter.md#"
)

type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []rule
	}
}

type rule struct {
	Record, Alert, Expr, For string
	Labels, Annotations      map[string]string
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func parse(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, name)), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// rules returns the recording rules and the alerts.
func rules(t *testing.T) (records, alerts []rule) {
	t.Helper()
	var f ruleFile
	parse(t, rulesFile, &f)
	for _, g := range f.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				alerts = append(alerts, r)
			} else {
				records = append(records, r)
			}
		}
	}
	if len(records) < 5 || len(alerts) < 15 {
		t.Fatalf("%d recording rules and %d alerts; want all of them", len(records), len(alerts))
	}
	return records, alerts
}

// contents returns the names that the rules and the dashboard may use.
func contents(t *testing.T) book {
	t.Helper()
	b := book{families(t), map[string][]string{}}
	records, _ := rules(t)
	for _, r := range records {
		_, grouped := uses(r.Expr)
		if len(grouped) == 0 { // computed from other recorded series
			grouped = []string{"job", "route"}
		}
		b.recorded[r.Record] = slices.DeleteFunc(grouped, func(l string) bool { return l == "le" })
	}
	return b
}

// The rules use only names that the code exports.
func TestC8_RulesNameWhatTheCodeTells(t *testing.T) {
	b := contents(t)
	records, alerts := rules(t)
	for _, r := range append(records, alerts...) {
		for _, fault := range b.check(r.Expr) {
			t.Errorf("%s%s: %s", r.Record, r.Alert, fault)
		}
	}
	for _, r := range records {
		if !recording.MatchString(r.Record) {
			t.Errorf("%s: want a name such as job_route:weir_http_calls:rate5m", r.Record)
		}
	}
}

// The series in the tests of the rules exist in the code.
func TestC8_TestsOfTheRulesNameWhatTheCodeTells(t *testing.T) {
	var f struct {
		Tests []struct {
			Name   string
			Series []struct{ Series, Values string } `yaml:"input_series"`
			Exprs  []struct {
				Expr    string
				Samples []struct{ Labels string } `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	parse(t, testsFile, &f)
	b, fires := contents(t), map[string]bool{}
	quiet := 0
	for _, test := range f.Tests {
		for _, s := range test.Series {
			for _, fault := range b.check(s.Series) {
				t.Errorf("%s: %s: %s", test.Name, s.Series, fault)
			}
		}
		for _, e := range test.Exprs {
			if len(e.Samples) == 0 {
				quiet++
			}
			for _, s := range e.Samples {
				all, _ := uses(s.Labels)
				for _, m := range all[0].matchers {
					if m[0] == "alertname" {
						fires[m[2]] = true
					}
				}
			}
		}
	}
	_, alerts := rules(t)
	for _, a := range alerts {
		if !fires[a.Alert] {
			t.Errorf("no test makes %s fire", a.Alert)
		}
	}
	if quiet < 5 {
		t.Errorf("in %d tests no alert fires; want some such tests", quiet)
	}
}

// Each alert has a description, a first step, and a link.
func TestAlertsAreToldInTheHowto(t *testing.T) {
	_, alerts := rules(t)
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#{2,4} (Weir\w+)$`).FindAllStringSubmatch(read(t, howtoFile), -1) {
		headings[m[1]] = true
	}
	for _, a := range alerts {
		if !headings[a.Alert] {
			t.Errorf("%s has no heading in %s", a.Alert, howtoFile)
		}
		delete(headings, a.Alert)
		if got := a.Annotations["runbook_url"]; got != runbook+strings.ToLower(a.Alert) {
			t.Errorf("%s: runbook_url %q; want %q", a.Alert, got, runbook+strings.ToLower(a.Alert))
		}
		if s := a.Annotations["summary"]; s == "" || len(s) > 160 || strings.Contains(s, "\n") {
			t.Errorf("%s: summary %q; want one line", a.Alert, s)
		}
		if !strings.Contains(a.Annotations["description"], "First: ") {
			t.Errorf("%s: description %q; want its meaning, and the first step", a.Alert, a.Annotations["description"])
		}
		if s := a.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "info"}, s) {
			t.Errorf("%s: severity %q", a.Alert, s)
		}
	}
	for _, left := range slices.Sorted(maps.Keys(headings)) {
		t.Errorf("%s describes %s, which is not an alert", howtoFile, left)
	}
}

func TestPromtoolTakesTheRules(t *testing.T) {
	promtool(t, "check", "rules", rulesFile)
}

func TestPromtoolRunsTheTestsOfTheRules(t *testing.T) {
	promtool(t, "test", "rules", testsFile)
}

func TestPromtoolTakesTheConfigurationOfCompose(t *testing.T) {
	dir := t.TempDir()
	text := read(t, root+"deploy/docker/prometheus.yml")
	token := filepath.Join(dir, "admin.token")
	text = strings.ReplaceAll(text, "/run/secrets/admin.token", token)
	for name, content := range map[string]string{"prometheus.yml": text, "weir.rules.yml": read(t, rulesFile), "admin.token": "0123456789abcdef"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	promtool(t, "check", "config", filepath.Join(dir, "prometheus.yml"))
}
