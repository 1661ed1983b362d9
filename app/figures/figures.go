// Package figures formats measured numbers for people: counts, rates, times and ratios with
// meaningful digits only, bars to scale, and columns that fit a width.
package figures

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Pad pads s with spaces to |width| columns, on the left if width is
// positive, on the right if it is negative.
func Pad(s string, width int) string {
	blanks := strings.Repeat(" ", max(0, max(width, -width)-utf8.RuneCountInString(s)))
	if width < 0 {
		return s + blanks
	}
	return blanks + s
}

// Bar draws a bar for share, 0 to 1, in room columns, to an eighth of a column. A share
// above 0 is always visible.
func Bar(share float64, room int) string {
	eighths := int(math.Round(share * float64(room) * 8))
	if share > 0 {
		eighths = max(eighths, 1)
	}
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return s
}

// Millis formats v milliseconds with at most three digits.
func Millis(v float64) string {
	switch {
	case v == 0:
		return "0 ms"
	case v < 0.9995:
		return digits(v*1000) + " µs"
	case v < 999.5:
		return digits(v) + " ms"
	default:
		return digits(v/1000) + " s"
	}
}

// Rate formats a number per second, without decimals from 10 on.
func Rate(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return Count(int64(math.Round(v)))
}

// Times formats a ratio.
func Times(v float64) string { return "×" + Rate(v) }

// Count formats n with commas between thousands.
func Count(n int64) string { return thousands(strconv.FormatInt(n, 10)) }

// Number formats v with four significant digits, or all digits of its integer part if there
// are more, without trailing zeros, as an author would print a measured figure.
func Number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	decimals := 3
	if v != 0 {
		decimals = max(0, 3-int(math.Floor(math.Log10(math.Abs(v)))))
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	whole, rest, _ := strings.Cut(s, ".")
	if whole = thousands(whole); rest != "" {
		whole += "." + rest
	}
	return whole
}

// digits formats v with one decimal below ten, otherwise as an integer.
func digits(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return thousands(strconv.FormatFloat(v, 'f', 0, 64))
}

// thousands puts commas between the thousands of an integer.
func thousands(s string) string {
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
