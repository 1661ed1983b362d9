package deploytest_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Labels and metrics that Prometheus itself adds.
var (
	targetLabels = []string{"job", "instance"}
	foreign      = map[string][]string{ // metrics of Prometheus, with their labels
		"up":     targetLabels,
		"ALERTS": {"alertname", "alertstate", "severity", "job", "instance", "route", "guard", "limit", "upstream", "server", "queue"},
	}
)

var (
	text      = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	selector  = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)?\s*\{([^}]*)\}`)
	matcher   = regexp.MustCompile(`([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"`)
	grouping  = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	word      = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	duration  = regexp.MustCompile(`\[[^\]]*\]`)
	recording = regexp.MustCompile(`^job_(?:route|guard):weir_\w+:\w+$`)
)

// A use is a use of a metric in an expression.
type use struct {
	name     string
	matchers [][]string // label, operator, value
}

// uses returns the metrics in an expression, and the labels by which it groups. Other
// words are functions or keywords of PromQL.
func uses(expr string) (all []use, grouped []string) {
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		u := use{name: m[1]}
		for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
			u.matchers = append(u.matchers, l[1:])
		}
		all = append(all, u)
	}
	bare := selector.ReplaceAllString(expr, " ")
	for _, m := range grouping.FindAllStringSubmatch(bare, -1) {
		grouped = append(grouped, word.FindAllString(m[1], -1)...)
	}
	bare = grouping.ReplaceAllString(duration.ReplaceAllString(text.ReplaceAllString(bare, " "), " "), " ")
	for _, name := range word.FindAllString(bare, -1) {
		if strings.Contains(name, "weir_") || foreign[name] != nil {
			all = append(all, use{name: name})
		}
	}
	return all, grouped
}

// A book contains the existing metrics and labels.
type book struct {
	code     map[string]family
	recorded map[string][]string // names of recording rules, with their labels
}

// labels returns the labels of a metric, and false if there is no such metric.
func (b book) labels(name string) ([]string, bool) {
	if l, ok := foreign[name]; ok {
		return l, true
	}
	if l, ok := b.recorded[name]; ok {
		return l, true
	}
	base := baseName(b.code, name)
	f, ok := b.code[base]
	if !ok || (f.kind == "histogram") == (base == name) { // a histogram has no sample with its plain name
		return nil, false
	}
	all := slices.Clone(targetLabels)
	for l := range f.labels {
		all = append(all, l)
	}
	if strings.HasSuffix(name, "_bucket") {
		all = append(all, "le")
	}
	return all, true
}

// check returns the names in an expression that do not exist.
func (b book) check(expr string) (faults []string) {
	all, grouped := uses(expr)
	if len(all) == 0 {
		return []string{"uses no metric"}
	}
	var any []string
	for _, u := range all {
		if u.name == "" { // {__name__=~"a|b"}
			for _, name := range u.named() {
				if _, ok := b.labels(name); !ok {
					faults = append(faults, "no metric "+name)
				}
			}
			continue
		}
		have, ok := b.labels(u.name)
		if !ok {
			faults = append(faults, "no metric "+u.name)
			continue
		}
		any = append(any, have...)
		for _, m := range u.matchers {
			if !slices.Contains(have, m[0]) {
				faults = append(faults, fmt.Sprintf("%s has no label %s", u.name, m[0]))
			}
			faults = append(faults, b.values(u.name, m)...)
		}
	}
	for _, l := range grouped {
		if !slices.Contains(any, l) {
			faults = append(faults, "groups by "+l+", which none of its metrics has")
		}
	}
	return faults
}

// named returns the names in a matcher of __name__.
func (u use) named() []string {
	for _, m := range u.matchers {
		if m[0] == "__name__" {
			return strings.Split(m[2], "|")
		}
	}
	return nil
}

// values returns the label values in a matcher that the code never exports. Labels with
// names chosen by the operator are not checked.
func (b book) values(name string, m []string) (faults []string) {
	f, ok := b.code[baseName(b.code, name)]
	if !ok || !slices.Contains([]string{"kind", "reason", "result"}, m[0]) || strings.HasPrefix(m[2], "$") {
		return nil
	}
	for v := range strings.SplitSeq(m[2], "|") {
		if !f.values[m[0]][v] {
			faults = append(faults, fmt.Sprintf("%s is never exported with %s=%q", name, m[0], v))
		}
	}
	return faults
}
