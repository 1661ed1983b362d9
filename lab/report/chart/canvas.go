package chart

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// Sizes of letters, in the units of the drawing.
const (
	small = 12.0
	plain = 13.0
	large = 15.0

	bolder = 1.2 // relative width of bold letters
)

// A canvas collects the elements of a drawing.
type canvas struct{ b strings.Builder }

// num formats a coordinate to a tenth of a unit.
func num(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		panic(fmt.Sprintf("chart: a coordinate is %g", v))
	}
	return strconv.FormatFloat(math.Round(v*10)/10+0, 'f', -1, 64)
}

// text writes s at its baseline. The class determines size and color; anchor is
// "start", "middle" or "end".
func (c *canvas) text(x, y float64, class, anchor, s string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" class="%s"`, num(x), num(y), class)
	if anchor != "start" {
		fmt.Fprintf(&c.b, ` text-anchor="%s"`, anchor)
	}
	fmt.Fprintf(&c.b, ">%s</text>", escape(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(&c.b, `<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, num(x1), num(y1), num(x2), num(y2), class)
}

func (c *canvas) rect(x, y, w, h float64, class string, tip string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" class="%s"`, num(x), num(y), num(w), num(h), class)
	c.closeWith("rect", tip)
}

func (c *canvas) circle(x, y, r float64, class string, tip string) {
	fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="%s" class="%s"`, num(x), num(y), num(r), class)
	c.closeWith("circle", tip)
}

// closeWith ends an element, with the tooltip tip.
func (c *canvas) closeWith(element, tip string) {
	if tip == "" {
		c.b.WriteString("/>")
		return
	}
	fmt.Fprintf(&c.b, "><title>%s</title></%s>", escape(tip), element)
}

// path writes a line through all points.
func (c *canvas) path(points []Point, class, tip string) {
	c.b.WriteString(`<path d="`)
	for i, p := range points {
		c.b.WriteByte("ML"[min(i, 1)])
		c.b.WriteString(num(p.X) + " " + num(p.Y))
	}
	fmt.Fprintf(&c.b, `" class="%s"`, class)
	c.closeWith("path", tip)
}

// group writes body, shifted by x and y.
func (c *canvas) group(x, y float64, body string) {
	fmt.Fprintf(&c.b, `<g transform="translate(%s %s)">%s</g>`, num(x), num(y), body)
}

// width estimates the width of s in a sans-serif font of that size. The reader's font
// is unknown, so it errs on the wide side.
func width(s string, size float64) (w float64) {
	for _, r := range s {
		switch {
		case strings.ContainsRune("iljtfrI.,:;'|!()[] ", r):
			w += 0.34
		case strings.ContainsRune("mwMW@%×→", r):
			w += 0.9
		case unicode.IsUpper(r):
			w += 0.7
		case r > 0x2e80: // East Asian letters are square
			w += 1.05
		default:
			w += 0.63
		}
	}
	return w * size
}

// fit truncates s so that it is no wider than room.
func fit(s string, size, room float64) string {
	if width(s, size) <= room {
		return s
	}
	letters := []rune(s)
	for len(letters) > 0 && width(string(letters), size)+size > room {
		letters = letters[:len(letters)-1]
	}
	return strings.TrimRight(string(letters), " ") + "…"
}

// fold breaks s between words into lines no wider than room.
func fold(s string, size, room float64) []string {
	var lines []string
	for _, word := range strings.Fields(s) {
		if n := len(lines) - 1; n >= 0 && width(lines[n]+" "+word, size) <= room {
			lines[n] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	for i := range lines {
		lines[i] = fit(lines[i], size, room)
	}
	return lines
}

// escape escapes s for XML, which allows no control characters.
func escape(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
}
