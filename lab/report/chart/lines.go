package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Lines shows lines over an axis.
type Lines struct {
	Title string
	X, Y  Axis
	Lines []Line
	Named bool // names are at the ends of the lines, if they fit: see Names
}

// A Line is a line of a chart. Values that are not numbers are left out.
type Line struct {
	Name   string
	Class  Class
	Points []Point // by ascending X
	Dots   bool    // each point is a measurement, and is marked
}

// A Point is a point of a line.
type Point struct {
	X, Y float64
	Tip  string // tooltip; "" for none
}

const (
	plotHeight = 190.0
	nameGap    = 13.0 // between the baselines of two names
)

// Names reports whether names at the ends of the lines fit into a width. If not, a
// legend is needed.
func (l Lines) Names(w float64) bool {
	return l.Named && l.nameRoom() <= 0.34*w && float64(len(l.Lines))*nameGap <= plotHeight
}

func (l Lines) nameRoom() (room float64) {
	for _, line := range l.Lines {
		room = max(room, width(line.Name, small)+6)
	}
	return room
}

func (l Lines) words() (title, description string) {
	var b strings.Builder
	fmt.Fprintf(&b, "Horizontal: %s. Vertical: %s%s.", l.X.Title, l.Y.Title, map[bool]string{true: ", logarithmic"}[l.Y.Kind == Log])
	write := l.Y.Format
	if write == nil {
		write = num
	}
	for _, line := range l.Lines {
		if points := numbers(line.Points); len(points) > 0 {
			ys := make([]float64, len(points))
			for i, p := range points {
				ys[i] = p.Y
			}
			fmt.Fprintf(&b, " %s: from %s to %s, at the right %s.", line.Name,
				write(slices.Min(ys)), write(slices.Max(ys)), write(ys[len(ys)-1]))
		}
	}
	return l.Title, b.String()
}

// numbers returns the points that can be drawn.
func numbers(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(p Point) bool {
		return math.IsNaN(p.X+p.Y) || math.IsInf(p.X, 0) || math.IsInf(p.Y, 0)
	})
}

func (l Lines) draw(w float64) (string, float64) {
	l.Lines = slices.Clone(l.Lines)
	var xs, ys []float64
	for i := range l.Lines {
		l.Lines[i].Points = numbers(l.Lines[i].Points)
		for _, p := range l.Lines[i].Points {
			xs, ys = append(xs, p.X), append(ys, p.Y)
		}
	}
	l.Lines = slices.DeleteFunc(l.Lines, func(line Line) bool { return len(line.Points) == 0 })
	var c canvas
	if len(l.Lines) == 0 {
		c.text(0, plain, "p muted", "start", "no measurements")
		return c.b.String(), plain + 6
	}
	x, xTicks := newScale(l.X, xs, 6)
	y, yTicks := newScale(l.Y, ys, 5)
	left := 0.0
	for _, t := range yTicks {
		left = max(left, width(t.label, small)+6)
	}
	x.from, x.to = left, w-10
	if l.Names(w) {
		x.to = w - l.nameRoom()
	}
	top := small + 12
	y.from, y.to = top+plotHeight, top
	c.text(0, small, "s muted", "start", fit(l.Y.Title, small, w))
	l.grid(&c, w, x, y, xTicks, yTicks)
	c.text((x.from+x.to)/2, y.from+2*small+12, "s muted", "middle", fit(l.X.Title, small, w))
	for _, line := range l.Lines {
		line.draw(&c, x, y)
	}
	if l.Names(w) {
		l.names(&c, x, y)
	}
	return c.b.String(), y.from + 2*small + 18
}

// grid draws the axes into the width w. A tick has no label if the label would
// overlap the previous one.
func (l Lines) grid(c *canvas, w float64, x, y scale, xTicks, yTicks []tick) {
	for i, t := range yTicks {
		at := y.at(t.value)
		class := "grid"
		if i == 0 {
			class = "axis"
		}
		c.line(x.from, at, x.to, at, class)
		c.text(x.from-6, at+4, "s muted", "end", t.label)
	}
	end := math.Inf(-1)
	for _, t := range xTicks {
		at, half := x.at(t.value), width(t.label, small)/2
		c.line(at, y.from, at, y.from+4, "axis")
		if middle := min(at, w-half); middle-half > end+4 {
			c.text(middle, y.from+small+6, "s muted", "middle", t.label)
			end = middle + half
		}
	}
}

func (l Line) draw(c *canvas, x, y scale) {
	at := make([]Point, len(l.Points))
	for i, p := range l.Points {
		at[i] = Point{X: x.at(p.X), Y: y.at(p.Y)}
	}
	if len(at) > 1 {
		c.path(at, string(l.Class), l.Name)
	}
	for i, p := range at {
		if l.Dots || len(at) == 1 {
			c.circle(p.X, p.Y, 2.5, string(l.Class)+" fill", "")
		}
		if tip := l.Points[i].Tip; tip != "" {
			c.circle(p.X, p.Y, 7, "hit", l.Name+": "+tip)
		}
	}
}

// names writes the names at the ends of the lines, without overlap.
func (l Lines) names(c *canvas, x, y scale) {
	type name struct {
		Line
		at float64
	}
	all := make([]name, len(l.Lines))
	for i, line := range l.Lines {
		all[i] = name{line, y.at(line.Points[len(line.Points)-1].Y)}
	}
	slices.SortStableFunc(all, func(a, b name) int { return cmp.Compare(a.at, b.at) })
	places := make([]float64, len(all))
	for i := range all {
		places[i] = all[i].at
	}
	spread(places, y.to, y.from, nameGap)
	for i, n := range all {
		c.text(x.to+6, places[i]+4, "s fill "+string(n.Class), "start", n.Name)
	}
}

// spread moves ascending positions apart until each is at least gap from the next and
// all are between low and top, if there is room.
func spread(places []float64, low, top, gap float64) {
	for i := range places {
		if i > 0 {
			low = places[i-1] + gap
		}
		places[i] = max(places[i], low)
	}
	for i := len(places) - 1; i >= 0; i-- {
		if i < len(places)-1 {
			top = places[i+1] - gap
		}
		places[i] = min(places[i], top)
	}
}
