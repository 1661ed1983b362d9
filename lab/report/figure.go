package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/lab/report/chart"
	"github.com/weir-go/weir/lab/result"
)

// The figures of a scenario depend on its measurements. Their kinds are also the
// names of picture files: those below, and for other series, and for Values over X,
// the lower-case name with dashes.
const (
	throughput  = "throughput"   // successful responses per second, as bars
	latencies   = "latency"      // percentiles
	goodput     = "goodput"      // successful responses per second over X
	slow        = "p99"          // 99th percentile over X
	sourceCalls = "source-calls" // calls to the source over X
)

var seriesKinds = map[string]string{
	result.CallsAtSource: "calls",
	result.QueueDepth:    "queue",
	result.GoodAnswers:   "answers",
}

const (
	mostPanels  = 6  // per figure: one for each setting
	fewestXs    = 3  // for a curve; two are better as bars
	manifoldFor = 50 // a log axis for X, if the highest is at least this many times the lowest
)

// A figure shows one aspect of a scenario, with one panel or one for each setting.
type figure struct {
	kind   string
	title  string
	note   string
	panels []panel
}

type panel struct {
	title string
	chart chart.Chart
}

// legend returns the names of the lines of a figure, nil if its charts show them.
func (f *figure) legend(width float64) []chart.Key {
	var all []chart.Lines
	named := true
	for _, p := range f.panels {
		if l, ok := p.chart.(chart.Lines); ok {
			all = append(all, l)
			named = named && l.Names(width)
		}
	}
	if named {
		return nil
	}
	return chart.Keys(all)
}

// A drawer draws the figures of one scenario.
type drawer struct {
	*result.Scenario
	groups  []result.Group
	palette *chart.Palette
}

func figuresOf(s *result.Scenario, p *chart.Palette) []figure {
	d := drawer{s, result.Groups(s.Measurements), p}
	var all []figure
	if d.curved() {
		all = append(all, d.curves()...)
	} else {
		all = append(all, d.throughput(), d.latency())
	}
	all = append(all, d.series()...)
	all = slices.DeleteFunc(all, func(f figure) bool { return len(f.panels) == 0 })
	seen := map[string]int{}
	for i := range all {
		kind := all[i].kind
		if seen[kind]++; seen[kind] > 1 {
			all[i].kind = fmt.Sprintf("%s-%d", kind, seen[kind])
		}
	}
	return all
}

// curved reports whether a variant was measured at enough values of X for a curve.
func (d *drawer) curved() bool {
	xs := map[string]map[float64]bool{}
	for _, g := range d.groups {
		v := g.Median.Variant
		if xs[v] == nil {
			xs[v] = map[float64]bool{}
		}
		if g.Median.X != 0 {
			xs[v][g.Median.X] = true
		}
		if len(xs[v]) >= fewestXs {
			return true
		}
	}
	return false
}

// settings returns the different settings, in order.
func (d *drawer) settings() []string {
	var all []string
	for _, g := range d.groups {
		if s := settingOf(g.Median, d.Axis); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func (d *drawer) throughput() figure {
	f := figure{kind: throughput, title: "Successful responses per second"}
	var top float64
	bars := 0
	f.panels = d.perSetting(func(setting string) (chart.Chart, bool) {
		c := chart.Bars{Title: d.titled("successful responses per second", setting), Format: figures.Rate}
		for _, g := range d.groups {
			if settingOf(g.Median, d.Axis) != setting || g.Median.Requests == 0 {
				continue
			}
			low, high := g.Spread()
			top = max(top, high)
			bars++
			if low < high {
				f.note = "The thin line goes from the slowest to the fastest round; the bar is the median."
			}
			c.Bars = append(c.Bars, chart.Bar{
				Name: g.Median.Variant, Class: d.palette.Of(g.Median.Variant),
				Value: g.Median.PerSecond, Low: low, High: high, Tip: barTip(g),
			})
		}
		return c, len(c.Bars) > 0
	})
	if bars < 2 || top == 0 {
		return figure{} // nothing to compare
	}
	for i, p := range f.panels {
		c := p.chart.(chart.Bars)
		c.Top = top
		f.panels[i].chart = c
	}
	return f
}

// titled returns the title of a chart of the scenario.
func (d *drawer) titled(what, setting string) string {
	if setting != "" {
		what += ", " + setting
	}
	return d.Title + ": " + what
}

func barTip(g result.Group) string {
	tip := figures.Rate(g.Median.PerSecond) + " successful responses per second"
	if low, high := g.Spread(); len(g.Rounds) > 1 {
		tip += fmt.Sprintf(", median of %d rounds from %s to %s", len(g.Rounds), figures.Rate(low), figures.Rate(high))
	}
	return tip
}

// perSetting makes a panel for each setting with data: for all of them, or for
// mostPanels spread evenly, including the first and the last.
func (d *drawer) perSetting(make func(setting string) (chart.Chart, bool)) []panel {
	var all []panel
	for _, setting := range d.settings() {
		if c, ok := make(setting); ok {
			all = append(all, panel{setting, c})
		}
	}
	if n := len(all); n > mostPanels {
		some := []panel{}
		for i := range mostPanels {
			some = append(some, all[i*(n-1)/(mostPanels-1)])
		}
		all = some
	}
	if len(all) == 1 {
		all[0].title = ""
	}
	return all
}

func (d *drawer) latency() figure {
	return figure{kind: latencies, title: "Latency of successful responses, by percentile",
		panels: d.perSetting(func(setting string) (chart.Chart, bool) {
			l := chart.Lines{
				Title: d.titled("latency by percentile", setting), Named: len(d.settings()) == 1,
				X: chart.Axis{Title: "percentile", Kind: chart.Percentile},
				Y: chart.Axis{Title: "latency", Kind: chart.Log, Format: figures.Millis},
			}
			for _, g := range d.groups {
				m := g.Median
				if settingOf(m, d.Axis) != setting || m.Latency == nil || m.Good == 0 {
					continue
				}
				l.X.Top = max(l.X.Top, float64(m.Good))
				l.Lines = append(l.Lines, chart.Line{Name: m.Variant, Class: d.palette.Of(m.Variant), Points: percentiles(m)})
			}
			return l, len(l.Lines) > 0
		})}
}

// percentiles returns the points of a distribution up to the position of the slowest
// of n answers, 1 - 1/n. Named percentiles have a tooltip.
func percentiles(m result.Measurement) []chart.Point {
	l := m.Latency
	slowest := 1 - 1/float64(max(m.Good, 2))
	var points []chart.Point
	for _, p := range l.Distribution {
		if p.Share < slowest {
			points = append(points, chart.Point{X: p.Share, Y: p.MS})
		}
	}
	for _, p := range []struct {
		name      string
		share, ms float64
	}{{"half", 0.5, l.P50}, {"90 %", 0.9, l.P90}, {"99 %", 0.99, l.P99}, {"99.9 %", 0.999, l.P999}} {
		if p.share < slowest && p.ms > 0 { // a load tool does not report every percentile
			points = append(points, chart.Point{X: p.share, Y: p.ms, Tip: p.name + " within " + figures.Millis(p.ms)})
		}
	}
	slices.SortStableFunc(points, byX)
	points = append(points, chart.Point{X: slowest, Y: l.Slowest, Tip: "slowest " + figures.Millis(l.Slowest)})
	for i, p := range points {
		if p.X > chart.LastShare {
			return append(points[:i], crossing(points[max(i-1, 0)], p))
		}
	}
	return points
}

// crossing returns the point where the line from a to b, which ends beyond the axis,
// crosses the end of the axis.
func crossing(a, b chart.Point) chart.Point {
	end := chart.Point{X: chart.LastShare, Y: b.Y}
	if a.X < b.X && a.Y > 0 && b.Y > 0 {
		share := (chart.Nines(chart.LastShare) - chart.Nines(a.X)) / (chart.Nines(b.X) - chart.Nines(a.X))
		end.Y = a.Y * math.Pow(b.Y/a.Y, share)
	}
	return end
}

func byX(a, b chart.Point) int { return cmp.Compare(a.X, b.X) }

func (d *drawer) series() []figure {
	var names []string
	for _, g := range d.groups {
		for _, s := range g.Median.Series {
			if !slices.Contains(names, s.Name) {
				names = append(names, s.Name)
			}
		}
	}
	var all []figure
	for _, name := range names {
		kind, ok := seriesKinds[name]
		if !ok {
			kind = slug(name)
		}
		all = append(all, figure{kind: kind, title: capital(name) + " over time", panels: d.perSetting(func(setting string) (chart.Chart, bool) {
			l := chart.Lines{
				Title: d.titled(name+" over time", setting), Named: len(d.settings()) == 1,
				X: chart.Axis{Title: "seconds since the load began"},
				Y: chart.Axis{Title: name, Format: figures.Number},
			}
			for _, g := range d.groups {
				if settingOf(g.Median, d.Axis) == setting {
					d.addSeries(&l, g.Median, name)
				}
			}
			return l, len(l.Lines) > 0
		})})
	}
	return all
}

func (d *drawer) addSeries(l *chart.Lines, m result.Measurement, name string) {
	for _, s := range m.Series {
		if s.Name != name || len(s.Values) == 0 {
			continue
		}
		if s.Unit != "" {
			l.Y.Title = s.Unit
		}
		line := chart.Line{Name: m.Variant, Class: d.palette.Of(m.Variant)}
		highest := slices.Index(s.Values, slices.Max(s.Values))
		for i, v := range s.Values {
			p := chart.Point{X: (float64(i) + 0.5) * s.EveryMS / 1000, Y: v}
			if i == highest {
				p.Tip = fmt.Sprintf("at most %s %s", figures.Number(v), s.Unit)
			}
			line.Points = append(line.Points, p)
		}
		l.Lines = append(l.Lines, line)
	}
}

// curves returns the figures over X, with a line for each variant.
func (d *drawer) curves() []figure {
	all := []figure{
		d.curve(goodput, "Successful responses per second", chart.Axis{Title: "successful responses/s", Format: figures.Rate},
			func(m result.Measurement) (float64, bool) { return m.PerSecond, m.Requests > 0 }),
		d.curve(slow, "The slowest hundredth of successful responses (p99)", chart.Axis{Title: "p99", Kind: chart.Log, Format: figures.Millis},
			func(m result.Measurement) (float64, bool) {
				if m.Latency == nil || m.Good == 0 {
					return 0, false
				}
				return m.Latency.P99, true
			}),
		d.curve(sourceCalls, "Calls to the source", chart.Axis{Title: "calls to the source", Format: figures.Rate},
			func(m result.Measurement) (float64, bool) {
				if m.Source == nil {
					return 0, false
				}
				return float64(m.Source.Calls), true
			}),
	}
	for _, name := range d.commonValues() {
		all = append(all, d.curve(slug(name), capital(name), chart.Axis{Title: name, Format: figures.Number},
			func(m result.Measurement) (float64, bool) { v, ok := m.Values[name]; return v, ok }))
	}
	return all
}

// commonValues returns the names of Values that every measurement has.
func (d *drawer) commonValues() []string {
	names := slices.Sorted(maps.Keys(d.groups[0].Median.Values))
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(d.groups, func(g result.Group) bool { _, ok := g.Median.Values[name]; return !ok })
	})
}

// curve draws a chart for each facet, with a line for each variant. Measurements
// without X are left out.
func (d *drawer) curve(kind, title string, y chart.Axis, of func(result.Measurement) (float64, bool)) figure {
	var facets []string
	for _, g := range d.groups {
		if f := facetOf(g.Median); g.Median.X != 0 && !slices.Contains(facets, f) {
			facets = append(facets, f)
		}
	}
	f := figure{kind: kind, title: title}
	for _, facet := range facets {
		l := d.lines(facet, y, of)
		if len(l.Lines) == 0 {
			continue
		}
		l.Title, l.Named = d.titled(title, facet), len(facets) == 1
		f.panels = append(f.panels, panel{facet, l})
	}
	return f
}

// lines draws the curves of a facet.
func (d *drawer) lines(facet string, y chart.Axis, of func(result.Measurement) (float64, bool)) chart.Lines {
	axis := d.Axis
	if axis == "" {
		axis = "setting"
	}
	l := chart.Lines{X: chart.Axis{Title: axis, Format: figures.Number}, Y: y}
	low, high := math.Inf(1), math.Inf(-1)
	for _, g := range d.groups {
		m := g.Median
		v, ok := of(m)
		if !ok || m.X == 0 || facetOf(m) != facet {
			continue
		}
		low, high = min(low, m.X), max(high, m.X)
		i := slices.IndexFunc(l.Lines, func(line chart.Line) bool { return line.Name == m.Variant })
		if i < 0 {
			i = len(l.Lines)
			l.Lines = append(l.Lines, chart.Line{Name: m.Variant, Class: d.palette.Of(m.Variant), Dots: true})
		}
		tip := fmt.Sprintf("%s at %s %s", y.Format(v), figures.Number(m.X), axis)
		l.Lines[i].Points = append(l.Lines[i].Points, chart.Point{X: m.X, Y: v, Tip: tip})
	}
	if low > 0 && high >= manifoldFor*low {
		l.X.Kind = chart.Log
	}
	for _, line := range l.Lines {
		slices.SortStableFunc(line.Points, byX)
	}
	return l
}
