// Package report renders a run of the lab: on the terminal, as a self-contained HTML
// page, as pictures, and as the pieces of the documents that quote a run.
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

// nothing stands for a missing number.
const nothing = "–"

// paletteOf assigns a color to every variant of the run.
func paletteOf(run *result.Run) *chart.Palette {
	var all [][]string
	for i := range run.Scenarios {
		all = append(all, variants(&run.Scenarios[i]))
	}
	return chart.NewPalette(all)
}

// variants returns the names of a scenario's variants, in order.
func variants(s *result.Scenario) (names []string) {
	for _, m := range s.Measurements {
		if !slices.Contains(names, m.Variant) {
			names = append(names, m.Variant)
		}
	}
	return names
}

// A headline is the summary of a scenario in a line: its first row.
type headline struct {
	row             *result.Row // nil if it has none
	what            string
	published, here float64 // ratios, 0 if unknown
}

func headlineOf(s *result.Scenario) headline {
	if len(s.Rows) == 0 {
		return headline{}
	}
	r := &s.Rows[0]
	return headline{row: r, what: whatOf(*r), published: r.PublishedRatio(), here: r.Ratio()}
}

// figures formats the published ratio, or with here the one measured here. With whole
// it adds the underlying figures.
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

// whatOf returns the name of a row, with its unit.
func whatOf(r result.Row) string {
	if r.Unit == "" || strings.Contains(r.What, r.Unit) {
		return r.What
	}
	return r.What + ", " + r.Unit
}

// times formats a ratio, as nothing if it is unknown.
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

// settingOf returns a measurement's setting in words, with its X unless the setting
// contains it.
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

// facetOf returns the setting of a measurement apart from its X, empty if the setting
// is only the X.
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

// slug turns a name into a part of a file name, or an anchor.
func slug(name string) string {
	return strings.Trim(notInNames.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// capital capitalizes the first letter.
func capital(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[size:]
}
