package judge

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// A preference is a member of Accept, Accept-Language or Accept-Encoding.
type preference struct {
	value  string
	weight float64
}

func preferences(lines []string) []preference {
	var all []preference
	for _, member := range strings.Split(strings.Join(lines, ","), ",") {
		value, parameters, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(member, " ", "")), ";")
		if value == "" {
			continue
		}
		p := preference{value, 1}
		if q, ok := strings.CutPrefix(parameters, "q="); ok {
			if w, err := strconv.ParseFloat(q, 64); err == nil {
				p.weight = w
			}
		} else if parameters != "" {
			p.value += ";" + parameters
		}
		all = append(all, p)
	}
	return all
}

// sameMeaning reports whether two values of a field of negotiation mean the same. Servers
// take the first of members of equal weight, so their order counts, but not the order of
// codings.
func sameMeaning(name string, a, b []string) bool {
	if (a == nil) != (b == nil) {
		// Without the field anything is acceptable, as with a wildcard alone.
		all := strings.Join(append(append([]string(nil), a...), b...), ",")
		return all == "*" || all == "*/*"
	}
	order := func(lines []string) []preference {
		all := preferences(lines)
		slices.SortStableFunc(all, func(x, y preference) int {
			c := cmp.Compare(y.weight, x.weight)
			if c == 0 && name == "Accept-Encoding" {
				c = cmp.Compare(x.value, y.value)
			}
			return c
		})
		return all
	}
	return slices.Equal(order(a), order(b))
}

// refuses reports whether the Accept-Encoding of a request surely excludes a coding.
// Without the field any coding is acceptable (RFC 9110, 12.5.3).
func refuses(lines []string, coding string) bool {
	if coding == "" || lines == nil {
		return false
	}
	rest := 0.0
	for _, p := range preferences(lines) {
		switch p.value {
		case coding, "x-" + coding:
			return p.weight == 0
		case "*":
			rest = p.weight
		}
	}
	return rest == 0
}
