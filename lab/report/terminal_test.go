package report_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-go/weir/app/golden"
	"github.com/weir-go/weir/lab/report"
	"github.com/weir-go/weir/lab/result"
)

func terminal(t *testing.T, run result.Run, style report.Style) string {
	t.Helper()
	var b strings.Builder
	for _, s := range run.Scenarios {
		if err := report.Scenario(&b, s, style); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n\n")
	}
	if err := report.Summary(&b, run, style); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTerminalGolden(t *testing.T) {
	for file, style := range map[string]report.Style{
		"plain80.txt":  {},
		"plain120.txt": {Width: 120},
		"color80.txt":  {Width: 80, Color: true},
	} {
		golden.Compare(t, filepath.Join("testdata", file), []byte(terminal(t, sample(), style)))
	}
}

func TestTerminalFitsAndHasNoControlCharacters(t *testing.T) {
	run := sample()
	run.Scenarios = append(run.Scenarios, hostile())
	for _, width := range []int{0, 1, 80, 100, 120, 500} {
		fit := min(max(width, report.MinWidth), report.MaxWidth)
		for line := range strings.Lines(terminal(t, run, report.Style{Width: width})) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > fit {
				t.Errorf("width %d: a line of %d columns; want at most %d: %q", width, n, fit, line)
			}
			if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("width %d: control character in %q", width, line)
			}
		}
	}
}

// hostile has names with special characters for a terminal, a page and a document,
// and a table that is too wide for all of them.
func hostile() result.Scenario {
	const bad = "<script>alert(\"1\")</script>\x1b[2J|`*_]](x)\n<!-- /lab -->"
	wide := result.Table{Title: bad, Head: []string{bad, "n"}}
	for range 30 {
		wide.Head = append(wide.Head, "123456789")
	}
	wide.Cells = [][]string{wide.Head, {bad}, {"1", "2"}, {}}
	return result.Scenario{
		Name: "hostile\x1b]<b>../../x", Title: bad, Asks: bad, Axis: bad, Error: bad,
		Published: &result.Published{Title: bad, URL: "javascript:alert(1)", Setup: bad, FromSource: []string{bad}, Flaws: []string{bad}, Inconsistencies: []string{bad}},
		Measurements: []result.Measurement{
			{Variant: bad, Setting: bad, Load: bad, Requests: 1, Failures: 1, FirstFailure: bad, Values: map[string]float64{bad: 1}},
			{Variant: bad + "2", X: 3, Requests: 1, Good: 1, PerSecond: 1, Latency: &result.Latency{P50: 1, Slowest: 1}, Series: []result.Series{{Name: bad, Unit: bad, EveryMS: 1, Values: []float64{1}}}},
		},
		Rows:   []result.Row{{What: bad, Unit: bad, Note: bad, FromSource: true, Before: f(0), After: f(0)}},
		Tables: []result.Table{wide},
		Checks: []result.Check{{What: bad, Detail: bad}},
		Notes:  []string{bad},
	}
}

func TestTerminalOfNothing(t *testing.T) {
	got := terminal(t, result.Run{Scenarios: []result.Scenario{{Name: "empty", Title: "Nothing"}}}, report.Style{})
	if strings.Contains(got, "NaN") || !strings.Contains(got, "empty: Nothing\n") || !strings.Contains(got, "All 0 checks hold.") {
		t.Errorf("got:\n%s", got)
	}
}

func TestFailuresOfARoundAreNotHiddenByTheMedian(t *testing.T) {
	s := result.Scenario{Name: "a"}
	for round, failed := range []int64{3, 0, 0} {
		s.Measurements = append(s.Measurements, result.Measurement{
			Variant: "weir", Round: round + 1, Requests: 10, Good: 10 - failed, Failures: failed, PerSecond: float64(10 * (round + 1)), FirstFailure: map[bool]string{true: "503"}[failed > 0],
		})
	}
	var b strings.Builder
	if err := report.Scenario(&b, s, report.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"weir          20        3\n", "The median of 3 alternating rounds", "weir: 3 of 30 requests failed, the first with 503\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWritersSayThatTheyCannotWrite(t *testing.T) {
	w := brokenWriter{errors.New("disk full")}
	for name, err := range map[string]error{
		"Scenario": report.Scenario(w, result.Scenario{}, report.Style{}),
		"Summary":  report.Summary(w, result.Run{}, report.Style{}),
		"HTML":     report.HTML(w, result.Run{}),
	} {
		if !errors.Is(err, w.err) {
			t.Errorf("%s = %v; want %v", name, err, w.err)
		}
	}
}
