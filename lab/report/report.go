// Package report shows a run of the lab: on the terminal, as one HTML page
// that needs nothing beside itself, as pictures, and as the pieces of the
// documents that quote a run.
package report

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/lab/report/chart"
	"github.com/weir-go/weir/lab/result"
)

// nothing stands where there is no number.
const nothing = "–"

// paletteOf gives every variant of the run its colour.
func paletteOf(run *result.Run) *chart.Palette {
	var all [][]string
	for i := range run.Scenarios {
		all = append(all, variants(&run.Scenarios[i]))
	}
	return chart.NewPalette(all)
}

// variants are the names of a scenario's, in order.
func variants(s *result.Scenario) (names []string) {
	for _, m := range s.Measurements {
		if !slices.Contains(names, m.Variant) {
			names = append(names, m.Variant)
		}
	}
	return names
}

// A headline is what a scenario has to tell in a line: its first row.
type headline struct {
	row             *result.Row // nil: it has none
	what            string
	published, here float64 // ratios, 0 if not known
}

func headlineOf(s *result.Scenario) headline {
	if len(s.Rows) == 0 {
		return headline{}
	}
	r := &s.Rows[0]
	return headline{row: r, what: whatOf(*r), published: r.PublishedRatio(), here: r.Ratio()}
}

// figures writes the published ratio or the one here, with the whole of the
// figures that it comes from if wanted.
func (h headline) figures(whole, here bool) string {
	switch {
	case h.row == nil:
		return ""
	case whole && here:
		return change(h.row.Before, h.row.After, h.here)
	case whole:
		return change(h.row.PublishedBefore, h.row.PublishedAfter, h.published)
	case here:
		return times(h.here)
	}
	return times(h.published)
}

// whatOf is what a row is of, with its unit.
func whatOf(r result.Row) string {
	if r.Unit == "" || strings.Contains(r.What, r.Unit) {
		return r.What
	}
	return r.What + ", " + r.Unit
}

// times writes a ratio, and nothing for one that is not known.
func times(ratio float64) string {
	switch {
	case ratio <= 0:
		return nothing
	case ratio < 0.95:
		return "×" + figures.Number(float64(int(ratio*100+0.5))/100)
	}
	return figures.Times(ratio)
}

func checksHeld(s *result.Scenario) (held int) {
	for _, c := range s.Checks {
		if c.Holds {
			held++
		}
	}
	return held
}

// settingOf is a measurement's setting in words: with its X, unless it tells
// that itself.
func settingOf(m result.Measurement, axis string) string {
	x := strings.TrimSpace(figures.Number(m.X) + " " + axis)
	switch {
	case m.X == 0 || m.Setting != "" && facetOf(m) == "":
		return m.Setting
	case m.Setting == "":
		return x
	}
	return m.Setting + ", " + x
}

// facetOf is the setting of a measurement that has an X beside it, empty if
// the X is all there is to the setting.
func facetOf(m result.Measurement) string {
	if strings.Contains(m.Setting, strconv.FormatFloat(m.X, 'f', -1, 64)) || strings.Contains(m.Setting, figures.Number(m.X)) {
		return ""
	}
	return m.Setting
}

func verdict(c result.Check) string {
	if c.Holds {
		return "holds"
	}
	return "does not hold"
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// slug makes a part of a file's name, or an anchor, of a name.
func slug(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// capital writes the first letter large.
func capital(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}
