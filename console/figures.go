package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Numbers in sentences, in the form of console/assets/js/format.js.

// thin separates a number from its unit, where no line breaks.
const thin = "\u202f"

// three formats x with at most three significant digits.
func three(x float64) string {
	digits := 2
	switch a := math.Abs(x); {
	case a == 0:
		return "0"
	case a >= 99.95:
		digits = 0
	case a >= 9.995:
		digits = 1
	case a < .0095:
		return strconv.FormatFloat(x, 'g', 1, 64)
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// si formats x as in 0.25, 12.5, 1.23k, 45.6M.
func si(x float64) string {
	for _, step := range []struct {
		size   float64
		letter string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(x) >= step.size*.9995 {
			return three(x/step.size) + step.letter
		}
	}
	return three(x)
}

func perSecond(x float64) string {
	if x > 0 && x < .01 {
		return "<" + thin + "0.01/s"
	}
	return si(x) + "/s"
}

// count formats n as in 12,345.
func count(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// percent formats a share from 0 to 1. 100 % and 0 % are exactly that.
func percent(x float64) string {
	p := x * 100
	switch {
	case p == 0, p == 100:
		return strconv.FormatFloat(p, 'f', 0, 64) + thin + "%"
	case p >= 99.9:
		return strconv.FormatFloat(math.Floor(p*100)/100, 'f', 2, 64) + thin + "%"
	case p >= 99:
		return strconv.FormatFloat(math.Floor(p*10)/10, 'f', 1, 64) + thin + "%"
	case p < .1:
		return "<" + thin + "0.1" + thin + "%"
	case p >= 10 && p < 90:
		return strconv.FormatFloat(p, 'f', 0, 64) + thin + "%"
	}
	return strconv.FormatFloat(p, 'f', 1, 64) + thin + "%"
}

// duration formats seconds: 870 µs, 12.3 ms, 1.24 s, then as age.
func duration(s float64) string {
	switch {
	case s == 0:
		return "0" + thin + "s"
	case s < .9995e-3:
		return three(s*1e6) + thin + "µs"
	case s < .9995:
		return three(s*1e3) + thin + "ms"
	case s < 99.95:
		return three(s) + thin + "s"
	}
	return age(s)
}

// age formats seconds in at most two units: 45 s, 3 min, 2 h 10 min, 3 d 4 h.
func age(s float64) string {
	n := int(max(0, math.Round(s)))
	two := func(a int, unit string, b int, rest string) string {
		if b == 0 {
			return fmt.Sprint(a) + thin + unit
		}
		return fmt.Sprint(a) + thin + unit + " " + fmt.Sprint(b) + thin + rest
	}
	switch m := n / 60; {
	case n < 120:
		return fmt.Sprint(n) + thin + "s"
	case m < 60:
		return fmt.Sprint(m) + thin + "min"
	case m < 48*60:
		return two(m/60, "h", m%60, "min")
	default:
		return two(m/60/24, "d", m/60%24, "h")
	}
}

// many formats n things: 1 call, 2 calls.
func many(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}

// words formats a list: a, b and c.
func words(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}
