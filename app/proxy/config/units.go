package config

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// None is the value of a [Duration], [Size], [Count] or [Factor] that was set to "none".
const None = -1

// A Duration is a time.Duration, written with its unit: 250ms, 10s, 1h30m.
type Duration time.Duration

// A Size is a number of bytes, written 512KiB, 64MiB or as a plain number.
type Size int64

// A Count is a number of things. It can be unlimited.
type Count int

// A Factor is how many times as much of something. It can be unlimited.
type Factor float64

// none is the word for a disabled limit. It is not "off", because some YAML readers
// read that as false.
const none = "none"

func (d Duration) String() string {
	if d == None {
		return none
	}
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (s Size) String() string {
	switch {
	case s == None:
		return none
	case s == 0:
		return "0B"
	}
	unit := 0
	for s%1024 == 0 && unit < len(sizeUnits)-1 {
		s, unit = s/1024, unit+1
	}
	return strconv.FormatInt(int64(s), 10) + sizeUnits[unit]
}

func (c Count) String() string {
	if c == None {
		return none
	}
	return strconv.Itoa(int(c))
}

func (f Factor) String() string {
	if f == None {
		return none
	}
	return strconv.FormatFloat(float64(f), 'g', -1, 64)
}

var sizeUnits = []string{"B", "KiB", "MiB", "GiB", "TiB"}

// MarshalYAML writes d in the form in which it is read.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// MarshalYAML writes s in the form in which it is read.
func (s Size) MarshalYAML() (any, error) { return s.String(), nil }

// MarshalYAML writes c in the form in which it is read.
func (c Count) MarshalYAML() (any, error) {
	if c == None {
		return none, nil
	}
	return int(c), nil
}

// MarshalYAML writes f in the form in which it is read.
func (f Factor) MarshalYAML() (any, error) {
	if f == None {
		return none, nil
	}
	return float64(f), nil
}

// A Choice is one of several words, of which true and false are booleans in YAML, and some can
// be numbers.
type Choice string

// MarshalYAML writes c in the form in which it is read.
func (c Choice) MarshalYAML() (any, error) {
	if c == "true" || c == "false" {
		return c == "true", nil
	}
	if n, err := strconv.Atoi(string(c)); err == nil {
		return n, nil
	}
	return string(c), nil
}

// A mistake is a problem with a value, and what was probably meant.
type mistake struct{ problem, suggestion string }

func (m *mistake) Error() string { return m.problem }

// tooLarge is the problem of a number that this program cannot represent.
const tooLarge = "is too large"

var writtenDuration = regexp.MustCompile(patternDuration)

var wordyTime = regexp.MustCompile(`^([0-9.]+) *(s|m|h|d|[num]s|secs?|seconds?|mins?|minutes?|hours?|hrs?|days?|millis|milliseconds?)$`)

func parseDuration(text string) (Duration, error) {
	if d, err := time.ParseDuration(text); err == nil && text != "0" && text != "+0" && text != "-0" {
		return Duration(d), nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, &mistake{"has no unit", ifDuration(text + "s")}
	}
	if writtenDuration.MatchString(text) {
		return 0, &mistake{problem: tooLarge}
	}
	m := wordyTime.FindStringSubmatch(strings.ToLower(text))
	if m == nil {
		return 0, &mistake{problem: "must be a duration such as 250ms, 10s or 1h30m"}
	}
	unit := m[2]
	switch {
	case unit[0] == 'd':
		if days, err := strconv.Atoi(m[1]); err == nil && days < 100_000 {
			return 0, &mistake{"is in days, but the largest unit is h", strconv.Itoa(days*24) + "h"}
		}
		return 0, &mistake{problem: "is in days, but the largest unit is h"}
	case strings.HasPrefix(unit, "milli"):
		unit = "ms"
	case len(unit) > 2 || unit == "hr":
		unit = unit[:1]
	}
	return 0, &mistake{"must be a duration such as 250ms, 10s or 1h30m", ifDuration(m[1] + unit)}
}

// ifDuration returns text if it is a duration, and "" otherwise.
func ifDuration(text string) string {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return ""
	case d == 0:
		return "0s" // also for -0
	}
	return text
}

var looseSize = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *([kmgt]?)(?:i?b|bytes?)?$`)

func parseSize(text string) (Size, error) {
	number, unit := text, 0
	for i, u := range sizeUnits {
		if s, ok := strings.CutSuffix(text, u); ok {
			number, unit = s, i // "B" is a suffix of all others, so the last match wins
		}
	}
	if digits(number) {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > math.MaxInt64>>(10*unit) {
			return 0, &mistake{problem: tooLarge}
		}
		return Size(n << (10 * unit)), nil
	}
	wrong := &mistake{problem: "must be a size such as 512KiB, 64MiB or a number of bytes"}
	if m := looseSize.FindStringSubmatch(strings.ToLower(text)); m != nil {
		unit := strings.Index(" kmgt", m[2]) // 0 without a unit
		if f, err := strconv.ParseFloat(m[1], 64); err == nil && f < 1<<20 {
			wrong.suggestion = Size(math.Round(f * float64(int64(1)<<(10*unit)))).String()
		}
	}
	return 0, wrong
}

// digits reports whether text is a number without a sign, a fraction or a leading zero,
// which YAML 1.1 reads as octal.
func digits(text string) bool {
	for _, r := range text {
		if r < '0' || r > '9' {
			return false
		}
	}
	return text != "" && (text == "0" || text[0] != '0')
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && digits(strings.TrimPrefix(text, "-")) {
		return n, nil
	}
	if digits(strings.TrimPrefix(text, "-")) && errors.Is(err, strconv.ErrRange) && text[0] != '-' {
		return 0, &mistake{problem: tooLarge}
	}
	wrong := &mistake{problem: "must be a whole number"}
	if loose, err := strconv.ParseInt(strings.TrimLeft(strings.ReplaceAll(text, "_", ""), "0"), 10, 64); err == nil {
		wrong.suggestion = strconv.FormatInt(loose, 10)
	} else if f, err := strconv.ParseFloat(text, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < 1e15 {
		wrong.suggestion = fmt.Sprintf("%.0f", f)
	}
	return 0, wrong
}

func parseFloat(text string) (float64, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) && !strings.ContainsAny(text, "_xX") {
		return f, nil
	}
	wrong := &mistake{problem: "must be a number"}
	if p, ok := strings.CutSuffix(text, "%"); ok {
		if f, err := strconv.ParseFloat(strings.TrimSpace(p), 64); err == nil {
			wrong.suggestion = strconv.FormatFloat(f/100, 'g', -1, 64)
		}
	}
	return 0, wrong
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	wrong := &mistake{problem: "must be true or false"}
	switch strings.ToLower(text) {
	case "yes", "y", "on", "1":
		wrong.suggestion = "true"
	case "no", "n", "off", "0", none:
		wrong.suggestion = "false"
	}
	return false, wrong
}
