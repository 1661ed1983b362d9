// Package chart draws the lab's measurements as SVG: lines, horizontal bars, and
// ratios on a log axis. A drawing follows the reader's light or dark mode, needs no
// script or font, and has a description in words.
//
// Coordinates assume letters of 12 and 13 units, so a drawing should be shown at
// about the width for which it was drawn.
package chart

import (
	"fmt"
	"strings"
)

// A Chart is one of Lines, Bars and Ratios.
type Chart interface {
	// draw draws the chart into a width, and returns its height.
	draw(width float64) (body string, height float64)

	// words returns the chart's title and a description, for screen readers.
	words() (title, description string)
}

// Inline draws c for a page that includes the Rules.
func Inline(c Chart, width float64) string {
	body, height := c.draw(width)
	title, description := c.words()
	return fmt.Sprintf(`<svg class="chart" viewBox="0 0 %s %s" role="img" aria-label="%s"><desc>%s</desc>%s</svg>`,
		num(width), num(height), escape(title), escape(description), body)
}

// A Key is an entry of a legend.
type Key struct {
	Name  string
	Class Class
}

// A Picture is a self-contained drawing: a title, a legend, and one or more charts
// side by side.
type Picture struct {
	Title  string
	Legend []Key // empty: the charts name their own lines
	Panels []Panel
}

// A Panel is a chart of a picture, with a heading that distinguishes it from the
// others.
type Panel struct {
	Title string
	Chart Chart
}

// PictureWidth is the width of a Picture.
const PictureWidth = 640.0

// Margins of a picture, and between its panels.
const (
	margin  = 16.0
	between = 24.0
)

// SVG returns the picture as a standalone file.
func (p Picture) SVG() []byte {
	var c canvas
	y := margin
	for _, line := range fold(p.Title, bolder*large, PictureWidth-2*margin) {
		y += large
		c.text(margin, y, "l", "start", line)
		y += 4
	}
	y += 8
	if len(p.Legend) > 0 {
		y = legend(&c, p.Legend, y) + 6
	}
	y = p.panels(&c, y)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="chart" width="%s" height="%s" viewBox="0 0 %[1]s %[2]s" role="img" aria-label="%s">`,
		num(PictureWidth), num(y+margin), escape(p.Title))
	fmt.Fprintf(&b, "<desc>%s</desc>\n<style>%s</style>\n", escape(p.description()), standaloneRules())
	fmt.Fprintf(&b, `<rect class="ground" width="%s" height="%s" rx="6"/>`, num(PictureWidth), num(y+margin))
	fmt.Fprintf(&b, "\n%s\n</svg>\n", strings.ReplaceAll(c.b.String(), "><", ">\n<"))
	return []byte(b.String())
}

func (p Picture) panels(c *canvas, y float64) float64 {
	columns := min(len(p.Panels), 2)
	if columns == 0 {
		return y
	}
	w := (PictureWidth - 2*margin - between*float64(columns-1)) / float64(columns)
	for i := 0; i < len(p.Panels); i += columns {
		var highest float64
		for n, panel := range p.Panels[i:min(i+columns, len(p.Panels))] {
			x, top := margin+float64(n)*(w+between), y
			if panel.Title != "" {
				c.text(x, top+plain, "p b", "start", fit(panel.Title, bolder*plain, w))
				top += plain + 8
			}
			body, height := panel.Chart.draw(w)
			c.group(x, top, body)
			highest = max(highest, top-y+height)
		}
		y += highest
		if i+columns < len(p.Panels) {
			y += margin
		}
	}
	return y
}

func (p Picture) description() string {
	var all []string
	for _, panel := range p.Panels {
		_, words := panel.Chart.words()
		if panel.Title != "" {
			words = panel.Title + ": " + words
		}
		all = append(all, words)
	}
	return strings.Join(all, " ")
}

// legend writes the keys below y, as many per line as fit, and returns its lower end.
func legend(c *canvas, keys []Key, y float64) float64 {
	const swatch, gap = 18.0, 16.0
	x := margin
	y += plain
	for _, k := range keys {
		name := fit(k.Name, plain, PictureWidth-2*margin-swatch-6)
		w := swatch + 6 + width(name, plain)
		if x > margin && x+w > PictureWidth-margin {
			x = margin
			y += plain + 6
		}
		c.path([]Point{{X: x, Y: y - 4}, {X: x + swatch, Y: y - 4}}, string(k.Class), "")
		c.text(x+swatch+6, y, "p", "start", name)
		x += w + gap
	}
	return y + 6
}

// Swatch returns only the line of a key, for a legend in a page.
func Swatch(class Class) string {
	var c canvas
	c.path([]Point{{X: 1, Y: 5}, {X: 19, Y: 5}}, string(class), "")
	return `<svg class="chart swatch" viewBox="0 0 20 10" aria-hidden="true">` + c.b.String() + "</svg>"
}
