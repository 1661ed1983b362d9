package chart_test

import (
	"encoding/xml"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/report/chart"
)

// parse fails the test unless s is well-formed, and returns its elements.
func parse(t *testing.T, s string) []xml.StartElement {
	t.Helper()
	var all []xml.StartElement
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, s)
		}
		if e, ok := token.(xml.StartElement); ok {
			all = append(all, e.Copy())
		}
	}
}

func attribute(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func line(values ...float64) chart.Line {
	l := chart.Line{Name: "a <b> & \"c\"", Class: "w0"}
	for i, v := range values {
		l.Points = append(l.Points, chart.Point{X: float64(i) / 10, Y: v, Tip: "<tip>"})
	}
	return l
}

func TestNoDataIsTooOddToDraw(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, values := range map[string][]float64{
		"nothing": nil, "one": {3}, "one zero": {0}, "zeros": {0, 0, 0}, "negative": {-1, 2}, "huge": {1e-300, 1e300},
		"not numbers": {nan, inf, -inf}, "among others": {1, nan, 3, inf}, "equal": {5, 5, 5}, "zero on a log axis": {0, 1, 100},
	} {
		for _, x := range []chart.Kind{chart.Linear, chart.Log, chart.Percentile} {
			for _, y := range []chart.Kind{chart.Linear, chart.Log} {
				c := chart.Lines{Title: "t", X: chart.Axis{Kind: x}, Y: chart.Axis{Kind: y}, Named: true, Lines: []chart.Line{line(values...)}}
				s := chart.Inline(c, 400)
				parse(t, s)
				if strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
					t.Errorf("%s, axes %d and %d: %s", name, x, y, s)
				}
			}
		}
		bars := chart.Bars{Format: number, Title: "t"}
		var ratios chart.Ratios
		ratios.Format = number
		for _, v := range values {
			bars.Bars = append(bars.Bars, chart.Bar{Name: "a", Class: "w0", Value: v, Low: v, High: v * 2})
			ratios.Rows = append(ratios.Rows, chart.Ratio{Name: "a", Published: v, Here: v * 2})
		}
		for _, c := range []chart.Chart{bars, ratios} {
			s := chart.Inline(c, 400)
			parse(t, s)
			if regexp.MustCompile(`(x|y|width|r|d)\d?="[^"]*(NaN|Inf)`).MatchString(s) {
				t.Errorf("%s: %s", name, s)
			}
		}
	}
}

func TestInlineSaysWhatItShows(t *testing.T) {
	c := chart.Lines{Title: "Latency & \"more\"", X: chart.Axis{Title: "x"}, Y: chart.Axis{Title: "y", Kind: chart.Log}, Lines: []chart.Line{line(1, 20)}}
	s := chart.Inline(c, 400)
	svg := parse(t, s)[0]
	if attribute(svg, "role") != "img" || attribute(svg, "aria-label") != c.Title {
		t.Errorf("svg %v; want role img and the title as label", svg.Attr)
	}
	if !strings.Contains(s, "<desc>Horizontal: x. Vertical: y, logarithmic. a &lt;b&gt; &amp; &#34;c&#34;: from 1 to 20, at the right 20.</desc>") {
		t.Errorf("no description of the data in %s", s)
	}
	if strings.Contains(s, "<tip>") || !strings.Contains(s, "<title>a &lt;b&gt; &amp; &#34;c&#34;: &lt;tip&gt;</title>") {
		t.Errorf("tips are missing, or not escaped: %s", s)
	}
}

// A bar's length is in proportion to its number, also between charts with the
// same Top.
func TestBarsAreToScale(t *testing.T) {
	length := func(b chart.Bars) (all []float64) {
		for _, e := range parse(t, chart.Inline(b, 400)) {
			if e.Name.Local == "rect" {
				w, err := strconv.ParseFloat(attribute(e, "width"), 64)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, w)
			}
		}
		return all
	}
	b := chart.Bars{Format: func(float64) string { return "n" }, Bars: []chart.Bar{{Name: "a", Value: 50}, {Name: "b", Value: 100}, {Name: "c"}}}
	if w := length(b); len(w) != 3 || math.Abs(2*w[0]-w[1]) > 0.2 || w[2] != 0 {
		t.Errorf("50, 100 and 0 are %v long", w)
	}
	b.Top = 200
	if w := length(b); math.Abs(4*w[0]-length(chart.Bars{Format: b.Format, Bars: []chart.Bar{{Name: "a", Value: 200}}})[0]) > 0.4 {
		t.Errorf("with a top of 200, 50 and 100 are %v long", w)
	}
}

var place = regexp.MustCompile(`<text x="([0-9.-]+)" y="([0-9.-]+)"`)

// Labels of one axis never overlap, if letters are about half as wide as they are
// high.
func TestLabelsOfAnAxisDoNotOverlap(t *testing.T) {
	for _, w := range []float64{120, 200, 300, 430} {
		long := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) + " milliseconds" }
		c := chart.Lines{Title: "t", X: chart.Axis{Format: long, Title: "x"}, Lines: []chart.Line{{Name: "a", Class: "w0", Points: []chart.Point{{X: 0}, {X: 900, Y: 1}}}}}
		s := chart.Inline(c, w)
		last, lastEnd := "", 0.0
		for _, m := range regexp.MustCompile(`<text x="([0-9.-]+)" y="([0-9.-]+)" class="s muted" text-anchor="middle">([^<]*milliseconds)<`).FindAllStringSubmatch(s, -1) {
			at, _ := strconv.ParseFloat(m[1], 64)
			half := float64(len(m[3])) * 12 * 0.5 / 2
			if last != "" && at-half < lastEnd {
				t.Errorf("%g wide: %q and %q overlap", w, last, m[3])
			}
			last, lastEnd = m[3], at+half
		}
		if last == "" {
			t.Errorf("%g wide: no label", w)
		}
	}
	if !place.MatchString(chart.Inline(chart.Lines{}, 100)) {
		t.Error("an empty chart has no text")
	}
}

func TestNamesNeedRoom(t *testing.T) {
	short := chart.Lines{Named: true, Lines: []chart.Line{{Name: "weir", Points: []chart.Point{{Y: 1}}}}}
	long := chart.Lines{Named: true, Lines: []chart.Line{{Name: strings.Repeat("weir and more ", 5), Points: []chart.Point{{Y: 1}}}}}
	if !short.Names(400) || long.Names(400) {
		t.Errorf("Names = %t for a short and %t for a long name; want true, false", short.Names(400), long.Names(400))
	}
	if !strings.Contains(chart.Inline(short, 400), ">weir</text>") || strings.Contains(chart.Inline(long, 400), "more </text>") {
		t.Error("a short name is not drawn, or a long one is")
	}
}

func TestPictureStandsByItself(t *testing.T) {
	p := chart.Picture{
		Title: "A <title>", Legend: []chart.Key{{Name: "a & b", Class: "w0"}, {Name: strings.Repeat("long ", 30), Class: "u0"}},
		Panels: []chart.Panel{{Title: "one", Chart: chart.Lines{Title: "1", Lines: []chart.Line{line(1, 2)}}}, {Title: "two", Chart: chart.Lines{Title: "2"}}, {Title: "three", Chart: chart.Bars{}}},
	}
	s := string(p.SVG())
	svg := parse(t, s)[0]
	if svg.Name.Space != "http://www.w3.org/2000/svg" || attribute(svg, "role") != "img" || attribute(svg, "aria-label") != p.Title {
		t.Errorf("svg %v; want the name space, role img and the title as label", svg)
	}
	for _, want := range []string{"@media (prefers-color-scheme:dark)", ">one</text>", ">three</text>", "a &amp; b", "<desc>one: "} {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	for _, not := range []string{"var(", "href", "url(", "<script", "@import"} {
		if strings.Contains(s, not) {
			t.Errorf("%q in a standalone picture", not)
		}
	}
	parse(t, string(chart.Picture{}.SVG()))
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
