package report

import (
	"github.com/weir-go/weir/lab/report/chart"
	"github.com/weir-go/weir/lab/result"
)

// A Picture is a drawing as a standalone SVG file, readable on a light and on a dark
// background.
type Picture struct {
	Name string // of the file: SCENARIO-KIND.svg, or headline.svg
	Alt  string // description, for screen readers
	SVG  []byte
}

// Pictures draws all figures of a run, and its headline.
func Pictures(run result.Run) []Picture {
	var all []Picture
	if p, ok := headlinePicture(&run); ok {
		all = append(all, p)
	}
	palette := paletteOf(&run)
	for i := range run.Scenarios {
		s := &run.Scenarios[i]
		for _, f := range figuresOf(s, palette) {
			all = append(all, f.picture(s))
		}
	}
	return all
}

func (f *figure) picture(s *result.Scenario) Picture {
	title := s.Title + ": " + f.title
	p := chart.Picture{Title: title, Legend: f.legend(chart.PictureWidth - 40)}
	for _, panel := range f.panels {
		p.Panels = append(p.Panels, chart.Panel{Title: panel.title, Chart: panel.chart})
	}
	return Picture{Name: pictureName(s.Name, f.kind), Alt: title, SVG: p.SVG()}
}

func pictureName(scenario, kind string) string { return slug(scenario) + "-" + kind + ".svg" }

const headlineTitle = "How many times better: published, and here"

func headlinePicture(run *result.Run) (Picture, bool) {
	c, ok := headlines(run)
	if !ok {
		return Picture{}, false
	}
	p := chart.Picture{Title: headlineTitle, Panels: []chart.Panel{{Chart: c}}}
	return Picture{Name: "headline.svg", Alt: headlineTitle, SVG: p.SVG()}, true
}

// headlines returns the picture of the first row of each scenario. It reports false
// if none has a ratio.
func headlines(run *result.Run) (chart.Ratios, bool) {
	c := chart.Ratios{Title: headlineTitle, Published: "published", Here: "here", Class: "w0", Format: times}
	for i := range run.Scenarios {
		s := &run.Scenarios[i]
		if h := headlineOf(s); h.published > 0 || h.here > 0 {
			c.Rows = append(c.Rows, chart.Ratio{Name: s.Name, Published: h.published, Here: h.here, Tip: ": " + h.what})
		}
	}
	return c, len(c.Rows) > 0
}
