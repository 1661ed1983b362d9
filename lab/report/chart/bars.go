package chart

import (
	"math"
	"slices"
	"strings"
)

// Bars shows numbers as horizontal bars that begin at 0.
type Bars struct {
	Title  string
	Format func(float64) string
	Bars   []Bar
	Top    float64 // number of the longest possible bar, to compare charts; 0: that of the longest here
}

// A Bar is one number, with the lowest and the highest of its repeats, which are
// drawn only if they differ.
type Bar struct {
	Name      string
	Class     Class
	Value     float64
	Low, High float64
	Tip       string
}

const (
	barHeight = 16.0
	barPitch  = 24.0
)

func (b Bars) words() (title, description string) {
	var all []string
	for _, bar := range b.Bars {
		all = append(all, bar.Name+" "+b.Format(bar.Value))
	}
	return b.Title, strings.Join(all, ", ") + "."
}

func (b Bars) draw(w float64) (string, float64) {
	top := b.Top
	var names, values float64
	for _, bar := range b.Bars {
		names = max(names, width(bar.Name, plain)+8)
		values = max(values, width(b.Format(bar.Value), plain)+8)
		top = max(top, finite(bar.Value), finite(bar.High))
	}
	if top == 0 {
		top = 1
	}
	x := scale{top: top, from: names, to: w - values}
	above := names > 0.42*w // long names get a separate line
	if above {
		x.from = 0
	}
	var c canvas
	y := 0.0
	for _, bar := range b.Bars {
		if above {
			c.text(0, y+plain, "p", "start", fit(bar.Name, plain, w))
			y += plain + 5
		} else {
			c.text(0, y+12.5, "p", "start", bar.Name)
		}
		bar.draw(&c, x, y, b.Format)
		y += barPitch
	}
	end := max(y-barPitch+barHeight+4, plain)
	if !above && len(b.Bars) > 0 {
		c.line(x.from, 0, x.from, end, "axis")
	}
	return c.b.String(), end
}

func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

func (b Bar) draw(c *canvas, x scale, y float64, format func(float64) string) {
	end := x.at(finite(b.Value))
	c.rect(x.from, y, max(end-x.from, 0), barHeight, string(b.Class)+" fill", b.Name+": "+b.Tip)
	if low, high := finite(b.Low), finite(b.High); low < high {
		mid := y + barHeight/2
		from, to := x.at(low), x.at(high)
		c.line(from, mid, to, mid, "spread")
		c.line(from, mid-3, from, mid+3, "spread")
		c.line(to, mid-3, to, mid+3, "spread")
		end = max(end, to)
	}
	c.text(end+6, y+12.5, "p", "start", format(b.Value))
}

// Keys returns the entries of a legend for lines: one for each name.
func Keys(charts []Lines) []Key {
	var keys []Key
	for _, c := range charts {
		for _, l := range c.Lines {
			k := Key{l.Name, l.Class}
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}
