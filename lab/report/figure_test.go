package report

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weir-go/weir/lab/report/chart"
	"github.com/weir-go/weir/lab/result"
)

func TestPercentilesEndWithTheSlowestOfSoMany(t *testing.T) {
	got := percentiles(result.Measurement{Good: 50, Latency: &result.Latency{P50: 1, P90: 2, P99: 3, P999: 4, Slowest: 5,
		Distribution: []result.Point{{MS: 0.5, Share: 0}, {MS: 3, Share: 0.99}, {MS: 5, Share: 1}}}})
	want := []chart.Point{{X: 0, Y: 0.5}, {X: 0.5, Y: 1}, {X: 0.9, Y: 2}, {X: 0.98, Y: 5}}
	if len(got) != len(want) {
		t.Fatalf("%v; want %v: of 50 answers none is beyond 98 %%", got, want)
	}
	for i, w := range want {
		if got[i].X != w.X || got[i].Y != w.Y {
			t.Errorf("point %d is %v; want %v", i, got[i], w)
		}
	}
}

// A line to a point beyond the axis is cut at the end of the axis.
func TestPercentilesAreCutAtTheEndOfTheAxis(t *testing.T) {
	got := percentiles(result.Measurement{Good: 100_000, Latency: &result.Latency{P50: 1, P90: 1, P99: 1, P999: 10, Slowest: 1000}})
	last := got[len(got)-1]
	if last.X != chart.LastShare || math.Abs(last.Y-100) > 0.01 {
		t.Errorf("the last point is %v; want 100 ms at 99.99 %%, half of the way from 10 to 1,000", last)
	}
}

func TestWideRangesOfXAreLogarithmic(t *testing.T) {
	for _, tt := range []struct {
		highest float64
		want    chart.Kind
	}{{5, chart.Linear}, {100, chart.Log}} {
		s := result.Scenario{Title: "t"}
		for _, x := range []float64{1, 2, tt.highest} {
			s.Measurements = append(s.Measurements, result.Measurement{Variant: "weir", X: x, Requests: 1, Good: 1, PerSecond: x})
		}
		figures := figuresOf(&s, chart.NewPalette(nil))
		if len(figures) != 1 || figures[0].kind != goodput {
			t.Fatalf("%d figures; want only goodput", len(figures))
		}
		if got := figures[0].panels[0].chart.(chart.Lines).X.Kind; got != tt.want {
			t.Errorf("X from 1 to %g: axis %d; want %d", tt.highest, got, tt.want)
		}
	}
}

// Settings that differ in more than X get separate curves; a setting that only
// restates X does not.
func TestEachFacetHasItsCurves(t *testing.T) {
	for _, tt := range []struct {
		setting func(what string, x float64) string
		label   string
		panels  []string
	}{
		{func(what string, _ float64) string { return what }, "inserts, 64 clients", []string{"inserts", "reads"}},
		{func(_ string, x float64) string { return fmt.Sprintf("%g clients", x) }, "64 clients", []string{""}},
	} {
		s := result.Scenario{Title: "t", Axis: "clients"}
		for _, what := range []string{"inserts", "reads"} {
			for _, x := range []float64{1, 12, 64} {
				s.Measurements = append(s.Measurements, result.Measurement{
					Variant: "weir", Setting: tt.setting(what, x), X: x, Requests: 1, Good: 1, PerSecond: x,
				})
			}
		}
		if got := settingOf(s.Measurements[2], s.Axis); got != tt.label {
			t.Errorf("settingOf = %q; want %q", got, tt.label)
		}
		var titles []string
		for _, p := range figuresOf(&s, chart.NewPalette(nil))[0].panels {
			titles = append(titles, p.title)
			if n := len(p.chart.(chart.Lines).Lines[0].Points); n != 3 {
				t.Errorf("%q: %d points; want the 3 of the facet", p.title, n)
			}
		}
		if !slices.Equal(titles, tt.panels) {
			t.Errorf("panels %q; want %q", titles, tt.panels)
		}
	}
}

func TestManySettingsAreThinnedOut(t *testing.T) {
	s := result.Scenario{Title: "t"}
	for i := range 20 {
		s.Measurements = append(s.Measurements, result.Measurement{
			Variant: "weir", Setting: fmt.Sprint(i), Requests: 9, Good: 9, Latency: &result.Latency{P50: 1, Slowest: 2},
		})
	}
	figures := figuresOf(&s, chart.NewPalette(nil))
	if len(figures) != 1 || len(figures[0].panels) != mostPanels {
		t.Fatalf("%d figures; want one with %d panels", len(figures), mostPanels)
	}
	if p := figures[0].panels; p[0].title != "0" || p[mostPanels-1].title != "19" {
		t.Errorf("panels from %q to %q; want the first and the last", p[0].title, p[mostPanels-1].title)
	}
}

// A load tool reports only the median, the p99 and the slowest. A missing percentile
// must not become a latency of 0.
func TestPercentilesThatAreNotToldAreNoPoints(t *testing.T) {
	m := result.Measurement{Good: 100_000, Latency: &result.Latency{P50: 3, P99: 5, Slowest: 9}}
	for _, p := range percentiles(m) {
		if p.Y <= 0 {
			t.Errorf("point %+v; want none for unknown percentiles", p)
		}
	}
}

func TestWhatHasNoXIsOnNoCurve(t *testing.T) {
	s := result.Scenario{Name: "load", Axis: "load"}
	for x := range 5 {
		setting := "from a cold start"
		if x > 0 {
			setting = fmt.Sprint(x)
		}
		s.Measurements = append(s.Measurements, result.Measurement{Variant: "one", Setting: setting, X: float64(x), Requests: 1, PerSecond: 1})
	}
	d := drawer{&s, result.Groups(s.Measurements), chart.NewPalette([][]string{{"one"}})}
	for _, f := range d.curves() {
		for _, p := range f.panels {
			for _, line := range p.chart.(chart.Lines).Lines {
				if len(line.Points) != 4 || line.Points[0].X != 1 {
					t.Errorf("%s: %d points from %v on; want the 4 that have an X", f.title, len(line.Points), line.Points[0].X)
				}
			}
		}
	}
}
