package chart

import (
	"fmt"
	"strings"
)

// A color has a role's colors on light and on dark backgrounds. All have a contrast
// of at least 4.5 to 1, so they can be used for text too.
type color struct{ role, light, dark string }

// inks are the colors of backgrounds, text and axes.
var inks = []color{
	{"ground", "#ffffff", "#15181c"},
	{"ink", "#1c1f23", "#e8eaed"},
	{"muted", "#5c6268", "#a0a6ad"},
	{"axis", "#8a9097", "#6f767d"},
	{"grid", "#e4e7ea", "#2c3137"},
}

// roles are the colors of variants. Blue is weir, greyish red is unprotected, and
// most people with red-green color blindness can tell the others apart.
var roles = []color{
	{"u0", "#a3524d", "#d9948d"}, {"u1", "#7d5a57", "#b89a96"},
	{"i0", "#686d72", "#9aa0a6"},
	{"w0", "#1f6fd0", "#6cb2ff"}, {"w1", "#0b3c7d", "#b5d8ff"}, {"w2", "#5b5bd6", "#a3a6ff"}, {"w3", "#357699", "#5fb4d6"},
	{"o0", "#b35900", "#f0a04b"}, {"o1", "#007a63", "#4fc9ae"}, {"o2", "#8e3d8f", "#d990da"}, {"o3", "#6b6b00", "#c9c75a"}, {"o4", "#7a5230", "#c9a07a"},
}

// A Class is the look of a variant: a role's color, and dashes if two variants share
// it.
type Class string

// A Palette gives every variant its class, the same in all charts.
type Palette struct{ classes map[string]Class }

// NewPalette assigns classes to the variants of each scenario in turn. Two variants
// of one scenario share a class only if there are more variants than roles with and
// without dashes.
func NewPalette(scenarios [][]string) *Palette {
	p := &Palette{map[string]Class{}}
	uses := map[Class]int{} // in all scenarios
	for _, names := range scenarios {
		taken := map[Class]bool{} // in this one
		for _, name := range names {
			taken[p.classes[name]] = true
		}
		for _, name := range names {
			if _, ok := p.classes[name]; ok {
				continue
			}
			c := pick(familyOf(name), taken, uses)
			p.classes[name], taken[c] = c, true
			uses[c]++
		}
	}
	return p
}

// pick chooses the free class of a family with the fewest uses, dashed ones last. An
// unprotected variant always gets the first class.
func pick(family byte, taken map[Class]bool, uses map[Class]int) (best Class) {
	for _, dash := range []Class{"", " dash"} {
		for _, r := range roles {
			c := Class(r.role) + dash
			if r.role[0] != family || taken[c] {
				continue
			}
			if family == 'u' || family == 'i' {
				return c
			}
			if best == "" || uses[c] < uses[best] {
				best = c
			}
		}
		if best != "" {
			return best
		}
	}
	return Class(string(family) + "0")
}

// Of returns the class of a variant. A variant unknown to NewPalette has the class of
// an ideal.
func (p *Palette) Of(name string) Class {
	if c, ok := p.classes[name]; ok {
		return c
	}
	return "i0"
}

// familyOf returns u for unprotected variants, w for weir, i for an ideal, and o for
// others.
func familyOf(name string) byte {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	for _, w := range words {
		if w == "ceiling" || w == "ideal" || w == "constant" {
			return 'i'
		}
	}
	switch {
	case len(words) == 0:
		return 'o'
	case words[0] == "weir":
		return 'w'
	case words[0] == "unprotected" || words[0] == "nothing":
		return 'u'
	}
	return 'o'
}

// Variables returns the colors as CSS custom properties for a page, for light and
// dark backgrounds.
func Variables() (light, dark string) {
	var l, d strings.Builder
	for _, list := range [][]color{inks, roles} {
		for _, c := range list {
			fmt.Fprintf(&l, "--%s:%s;", c.role, c.light)
			fmt.Fprintf(&d, "--%s:%s;", c.role, c.dark)
		}
	}
	return l.String(), d.String()
}

// Rules returns the style sheet of the charts in a page with the Variables.
func Rules() string {
	return shapes + colors(func(c color) string { return "var(--" + c.role + ")" })
}

// standaloneRules contains the colors themselves, because some SVG viewers do not
// support custom properties.
func standaloneRules() string {
	return shapes + colors(func(c color) string { return c.light }) +
		"@media (prefers-color-scheme:dark){" + colors(func(c color) string { return c.dark }) + "}"
}

// shapes are the styles other than the colors.
var shapes = fmt.Sprintf(`.chart text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums}`+
	`.chart .s{font-size:%gpx}.chart .p{font-size:%gpx}.chart .l{font-size:%gpx;font-weight:650}.chart .b{font-weight:650}`+
	`.chart path{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}`+
	`.chart .i0{stroke-dasharray:5 4}.chart .dash{stroke-dasharray:9 4}.chart .i0.dash{stroke-dasharray:2 4}`+
	`.chart text.fill,.chart rect.fill{stroke:none}.chart .hit{fill:transparent;stroke:none}`+
	`.chart .grid,.chart .axis{stroke-width:1;shape-rendering:crispEdges}.chart .spread{stroke-width:1.5}.chart .open{stroke-width:2}.chart .link{stroke-width:2}`,
	small, plain, large)

func colors(value func(color) string) string {
	var b strings.Builder
	of := map[string]string{}
	for _, c := range inks {
		of[c.role] = value(c)
	}
	fmt.Fprintf(&b, ".chart .ground{fill:%s}.chart text{fill:%s}.chart text.muted{fill:%s}.chart .grid{stroke:%s}"+
		".chart .axis{stroke:%s}.chart .spread{stroke:%s}.chart .open{fill:%s;stroke:%s}.chart .link{stroke:%s}",
		of["ground"], of["ink"], of["muted"], of["grid"], of["axis"], of["ink"], of["ground"], of["muted"], of["grid"])
	for _, c := range roles {
		v := value(c)
		fmt.Fprintf(&b, ".chart .%s{stroke:%s}.chart .%s.fill{fill:%s}", c.role, v, c.role, v)
	}
	return b.String()
}
