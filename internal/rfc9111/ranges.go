package rfc9111

import (
	"slices"
	"strconv"
	"strings"
)

// MaxRanges is the number of ranges that a request may ask for. Beyond it, Range
// is ignored (RFC 9110 sections 14.2 and 17.15), because each range costs its own
// part header.
const MaxRanges = 16

// A span is a satisfiable range; both positions are inclusive.
type span struct{ first, last int64 }

// Ranges parses the lines of a Range field (RFC 9110 section 14.2) for a body of
// size bytes. It returns the ranges to serve. All their positions are within the
// body and no two overlap; they are in the requested order, or sorted if some
// overlapped. An empty value means that the field is ignored and the whole body
// is served. If ok is false, no range can be satisfied.
//
// The field is ignored if there is more than one line, if the unit is not bytes,
// if it is not a valid ranges-specifier, if there are more than [MaxRanges], or
// if the body is empty.
func Ranges(lines []string, size int64) (value string, ok bool) {
	if len(lines) != 1 || size <= 0 {
		return "", true
	}
	unit, set, found := strings.Cut(lines[0], "=")
	if !found || !strings.EqualFold(trim(unit), "bytes") {
		return "", true
	}
	var spans []span
	asked := 0
	for set != "" || asked == 0 {
		var spec string
		spec, set, _ = strings.Cut(set, ",")
		if spec = trim(spec); spec == "" {
			if set == "" {
				break
			}
			continue // an empty list element, RFC 9110 section 5.6.1
		}
		if asked++; asked > MaxRanges {
			return "", true
		}
		s, valid := readSpan(spec, size)
		if !valid {
			return "", true
		}
		if s.first <= s.last {
			spans = append(spans, s)
		}
	}
	if asked == 0 {
		return "", true
	}
	if len(spans) == 0 {
		return "", false
	}
	return render(apartFrom(spans)), true
}

// readSpan parses an int-range or a suffix-range. In one that cannot be
// satisfied, the first position is after the last.
func readSpan(spec string, size int64) (s span, valid bool) {
	first, last, found := strings.Cut(spec, "-")
	if !found {
		return s, false
	}
	first, last = trim(first), trim(last)
	if first == "" { // a suffix: the last n bytes
		n, ok := position(last)
		if !ok {
			return s, false
		}
		if n == 0 {
			return span{1, 0}, true
		}
		return span{max(size-n, 0), size - 1}, true
	}
	from, ok := position(first)
	if !ok {
		return s, false
	}
	to := size - 1
	if last != "" {
		n, ok := position(last)
		if !ok || n < from {
			return s, false
		}
		to = min(n, to)
	}
	if from >= size {
		return span{1, 0}, true
	}
	return span{from, to}, true
}

// position parses digits. A value larger than any body is clamped.
func position(s string) (int64, bool) {
	const most = 1 << 62
	n := int64(0)
	for i := range len(s) {
		if !digit(s[i]) {
			return 0, false
		}
		if n = n*10 + int64(s[i]-'0'); n > most/10-10 {
			n = most/10 - 10
		}
	}
	return n, s != ""
}

// apartFrom merges spans that overlap or touch.
func apartFrom(spans []span) []span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int {
		if a.first < b.first || a.first == b.first && a.last < b.last {
			return -1
		}
		return 1
	})
	joined := sorted[:1]
	for _, s := range sorted[1:] {
		if before := &joined[len(joined)-1]; s.first <= before.last+1 {
			before.last = max(before.last, s.last)
		} else {
			joined = append(joined, s)
		}
	}
	if len(joined) == len(spans) {
		return spans
	}
	return joined
}

func render(spans []span) string {
	b := []byte("bytes=")
	for i, s := range spans {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, s.first, 10)
		b = append(b, '-')
		b = strconv.AppendInt(b, s.last, 10)
	}
	return string(b)
}
