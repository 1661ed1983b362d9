package chart

import (
	"fmt"
	"slices"
	"strings"
)

// Ratios shows a published ratio and our own for each row, on a log axis with a mark
// at 1.
type Ratios struct {
	Title           string
	Published, Here string // names of the two dots
	Class           Class  // of our dot
	Format          func(float64) string
	Rows            []Ratio
}

// A Ratio is one row. A ratio of 0 is unknown and not drawn.
type Ratio struct {
	Name            string
	Published, Here float64
	Tip             string
}

func (r Ratios) words() (title, description string) {
	var rows []string
	for _, row := range r.Rows {
		var parts []string
		if row.Published > 0 {
			parts = append(parts, r.Published+" "+r.Format(row.Published))
		}
		if row.Here > 0 {
			parts = append(parts, r.Here+" "+r.Format(row.Here))
		}
		if len(parts) > 0 {
			rows = append(rows, row.Name+": "+strings.Join(parts, ", ")+".")
		}
	}
	return r.Title, strings.Join(rows, " ")
}

func (r Ratios) draw(w float64) (string, float64) {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Ratio) bool { return finite(row.Published) <= 0 && finite(row.Here) <= 0 })
	var c canvas
	if len(rows) == 0 {
		c.text(0, plain, "p muted", "start", "no measurements")
		return c.b.String(), plain + 6
	}
	values := []float64{1}
	var names, labels float64
	for _, row := range rows {
		names = max(names, width(row.Name, plain)+8)
		for _, v := range []float64{finite(row.Published), finite(row.Here)} {
			if v > 0 {
				values = append(values, v)
				labels = max(labels, width(r.Format(v), small)+10)
			}
		}
	}
	x, ticks := newScale(Axis{Kind: Log, Format: r.Format}, values, 5)
	above := names > 0.42*w
	pitch, lift := barPitch, 0.0
	x.from, x.to = names+labels, w-labels
	if above {
		pitch, lift, x.from = barPitch+plain+4, plain+4, labels
	}
	y := legendOf(&c, r) + 8
	bottom := y + float64(len(rows))*pitch
	for _, t := range ticks {
		class := "grid"
		if t.value == 1 {
			class = "axis"
		}
		c.line(x.at(t.value), y, x.at(t.value), bottom, class)
		c.text(x.at(t.value), bottom+small+4, "s muted", "middle", t.label)
	}
	for _, row := range rows {
		mid := y + lift + barPitch/2
		if above {
			c.text(0, y+plain, "p", "start", fit(row.Name, plain, w))
		} else {
			c.text(0, mid+4, "p", "start", row.Name)
		}
		r.row(&c, row, x, mid)
		y += pitch
	}
	return c.b.String(), bottom + small + 10
}

// row draws the dots of a row, each with its number on the outer side, so that the
// numbers never overlap.
func (r Ratios) row(c *canvas, row Ratio, x scale, y float64) {
	published, here := finite(row.Published), finite(row.Here)
	if published > 0 && here > 0 {
		c.line(x.at(published), y, x.at(here), y, "link")
	}
	if published > 0 {
		at := x.at(published)
		c.circle(at, y, 5, "open", r.Published+" "+r.Format(published)+", "+row.Name+row.Tip)
		if here <= 0 || published > here {
			c.text(at+9, y+4, "s muted", "start", r.Format(published))
		} else {
			c.text(at-9, y+4, "s muted", "end", r.Format(published))
		}
	}
	if here > 0 {
		at := x.at(here)
		c.circle(at, y, 5, string(r.Class)+" fill", r.Here+" "+r.Format(here)+", "+row.Name+row.Tip)
		if published > here {
			c.text(at-9, y+4, "s b", "end", r.Format(here))
		} else {
			c.text(at+9, y+4, "s b", "start", r.Format(here))
		}
	}
}

// legendOf writes the names of the two dots and returns its lower end.
func legendOf(c *canvas, r Ratios) float64 {
	c.circle(6, 7, 5, "open", "")
	c.text(16, 11, "s muted", "start", r.Published)
	x := 16 + width(r.Published, small) + 18
	c.circle(x, 7, 5, string(r.Class)+" fill", "")
	c.text(x+10, 11, "s b", "start", fmt.Sprint(r.Here))
	return 16
}
