package report_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/report"
	"github.com/weir-go/weir/lab/result"
)

func page(t *testing.T, run result.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.HTML(&b, run); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// elements parses a page as XML, which is stricter than any browser. It also returns
// all of its text.
func elements(t *testing.T, page string) (all []xml.StartElement, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	var b strings.Builder
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all, b.String()
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		switch e := token.(type) {
		case xml.StartElement:
			all = append(all, e.Copy())
		case xml.CharData:
			b.Write(e)
		}
	}
}

func TestPageNeedsNothingBesideItself(t *testing.T) {
	run := sample()
	run.Scenarios = append(run.Scenarios, hostile())
	all, _ := elements(t, page(t, run))
	ids := map[string]bool{}
	for _, e := range all {
		for _, a := range e.Attr {
			if a.Name.Local == "id" {
				ids[a.Value] = true
			}
		}
	}
	for _, e := range all {
		if slices.Contains([]string{"script", "link", "img", "iframe", "object", "image", "use"}, e.Name.Local) {
			t.Errorf("a %s in the page", e.Name.Local)
		}
		for _, a := range e.Attr {
			switch name := a.Name.Local; {
			case name == "src" || strings.HasPrefix(name, "on"):
				t.Errorf("%s has %s=%q", e.Name.Local, name, a.Value)
			case name == "href" && (e.Name.Local != "a" || strings.HasPrefix(a.Value, "javascript")):
				t.Errorf("%s has %s=%q", e.Name.Local, name, a.Value)
			case name == "href" && a.Value[0] == '#' && a.Value != "#ZgotmplZ" && !ids[a.Value[1:]]:
				t.Errorf("nothing has the id of %s", a.Value)
			}
		}
	}
	if m := regexp.MustCompile(`url\(|@import`).FindString(page(t, run)); m != "" {
		t.Errorf("the page has %q", m)
	}
}

func TestPageNamesEverything(t *testing.T) {
	run := sample()
	_, text := elements(t, page(t, run))
	var want []string
	want = append(want, run.Head.Notes...)
	want = append(want, "AMD EPYC 7763, 2 CPUs", "commit 5456eed, 2026-11-21", "8 of 9", "did not finish", "Where the text contradicts itself", "in its authors' source")
	for _, s := range run.Scenarios {
		want = append(want, s.Name, s.Title, s.Asks, s.Error)
		want = append(want, s.Notes...)
		if p := s.Published; p != nil {
			want = append(append(append(append(want, p.Title, p.Setup), p.FromSource...), p.Inconsistencies...), p.Flaws...)
		}
		for _, m := range s.Measurements {
			want = append(want, m.Variant, m.Setting, m.Load)
		}
		for _, r := range s.Rows {
			want = append(want, r.What, r.Note)
		}
		for _, c := range s.Checks {
			want = append(want, c.What, c.Detail)
		}
		for _, tab := range s.Tables {
			want = append(append(want, tab.Title), slices.Concat(tab.Cells...)...)
		}
	}
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("the page lacks %q", w)
		}
	}
}

func TestPageIsForLightAndDark(t *testing.T) {
	s := page(t, sample())
	for _, want := range []string{
		`<meta name="color-scheme" content="light dark"/>`, `<meta name="viewport"`, "@media (prefers-color-scheme:dark){:root{--ground:#15181c;", ":root{--ground:#ffffff;", "@media print{",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in the page", want)
		}
	}
	defined := map[string]bool{}
	for _, m := range regexp.MustCompile(`(--[a-z0-9]+):`).FindAllStringSubmatch(s, -1) {
		defined[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`var\((--[a-z0-9]+)\)`).FindAllStringSubmatch(s, -1) {
		if !defined[m[1]] {
			t.Errorf("%s is used and not defined", m[1])
		}
	}
}

func TestEveryChartOfThePageIsInWords(t *testing.T) {
	all, _ := elements(t, page(t, sample()))
	charts := 0
	for _, e := range all {
		if e.Name.Local != "svg" {
			continue
		}
		attributes := map[string]string{}
		for _, a := range e.Attr {
			attributes[a.Name.Local] = a.Value
		}
		if attributes["aria-hidden"] == "true" {
			continue // a line of a legend, next to its name
		}
		charts++
		if attributes["role"] != "img" || attributes["aria-label"] == "" {
			t.Errorf("an svg has %v; want role img and a label", e.Attr)
		}
	}
	if charts != 20 {
		t.Errorf("%d charts; want 20: a headline, and 2, 4, 1, 4, 4 and 4 of the scenarios", charts)
	}
}

func TestPageEscapes(t *testing.T) {
	run := sample()
	run.Scenarios = []result.Scenario{hostile()}
	run.Head.Notes, run.Head.Commit = []string{"</style><script>x</script>"}, "<i>"
	s := page(t, run)
	for _, not := range []string{"<script", "<i>", "<!-- /lab", "javascript:", "<b>../"} {
		if strings.Contains(s, not) {
			t.Errorf("the page has %q", not)
		}
	}
	for _, p := range report.Pictures(run) {
		if strings.ContainsAny(p.Name, `/\<> `) || bytes.Contains(p.SVG, []byte("<script")) {
			t.Errorf("picture %q: a name or a text is not escaped", p.Name)
		}
		elements(t, string(p.SVG))
	}
}

func TestPageOfNothing(t *testing.T) {
	elements(t, page(t, result.Run{}))
	elements(t, page(t, result.Run{Scenarios: []result.Scenario{{Name: "a"}}}))
}

func TestPageSaysThatARunWasSmall(t *testing.T) {
	run := sample()
	if s := page(t, run); strings.Contains(s, "small size") {
		t.Error("a full run is called small")
	}
	run.Head.Size = result.Small
	if s := page(t, run); !strings.Contains(s, "small size") {
		t.Error("a small run is not called small")
	}
}

func TestPictures(t *testing.T) {
	var names []string
	for _, p := range report.Pictures(sample()) {
		names = append(names, p.Name)
		if p.Alt == "" {
			t.Errorf("%s has no words", p.Name)
		}
		elements(t, string(p.SVG))
	}
	want := []string{
		"headline.svg",
		"do-once-throughput.svg", "do-once-latency.svg",
		"coalesce-postgres-throughput.svg", "coalesce-postgres-latency.svg",
		"refresh-ahead-latency.svg",
		"overload-goodput.svg", "overload-p99.svg", "overload-source-calls.svg", "overload-refused-share.svg",
		"thundering-expiry-throughput.svg", "thundering-expiry-latency.svg", "thundering-expiry-calls.svg", "thundering-expiry-queue.svg",
		"sql-to-nosql-throughput.svg", "sql-to-nosql-latency.svg",
	}
	if !slices.Equal(names, want) {
		t.Errorf("pictures %q; want %q", names, want)
	}
}
