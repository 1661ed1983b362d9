package rfc9111

import "strings"

// Bounds of a negotiation field that is compared by its meaning. A longer one is
// compared by its bytes.
const (
	maxPreferences    = 24
	maxPreferencesLen = 512 // bytes of all lines
	// maxCanonical is the longest canonical form: a blank more for each comma than
	// the field has.
	maxCanonical = maxPreferencesLen + 2*maxPreferences
)

// A preference is a member of Accept, Accept-Encoding or Accept-Language: what
// the client accepts, and how much it wants that.
type preference struct {
	what string // as received, without its weight
	fold int    // the length of the part of what whose case is irrelevant
	q    int    // the weight in thousandths, 0 to 1000
}

// preferences are the members of such a field in one order for all fields that
// mean the same: by weight, each once (H29). Of those with the same weight, servers take
// the first one in Accept and Accept-Language, which RFC 9110 section 12.5.4 mentions,
// so their order is kept. In Accept-Encoding they are in the order of their names.
type preferences struct {
	all     [maxPreferences]preference
	n       int
	ordered bool // the order of equals is kept
}

// negotiates reports whether the members of the field name are preferences.
func negotiates(name string) bool {
	return name == "Accept-Language" || name == "Accept-Encoding" || name == "Accept"
}

// read parses the lines of the field name, and reports whether p now holds what
// they mean. If it reports false, the field has to be compared by its bytes: it
// does not follow the grammar, is too long, has a quoted string, or gives a member
// two weights, which origins may resolve in different ways.
func (p *preferences) read(name string, lines []string) bool {
	size := 0
	p.ordered = name != "Accept-Encoding"
	for _, line := range lines {
		if size += len(line); size > maxPreferencesLen {
			return false
		}
		for more := true; more; {
			var text string
			if text, line, more = strings.Cut(line, ","); trim(text) == "" {
				continue // an empty list element, RFC 9110 section 5.6.1
			}
			m, ok := readPreference(name, trim(text))
			if !ok || !p.add(m) {
				return false
			}
		}
	}
	return p.n > 0
}

// readPreference parses one member, and reports whether it is valid.
func readPreference(name, text string) (preference, bool) {
	m := preference{what: text, q: 1000}
	if i := strings.LastIndexByte(text, ';'); i >= 0 {
		if last := trim(text[i+1:]); len(last) >= 2 && last[0]|0x20 == 'q' && last[1] == '=' {
			var ok bool
			if m.q, ok = weight(last[2:]); !ok {
				return m, false
			}
			m.what = trim(text[:i])
		}
	}
	m.fold = len(m.what)
	switch name {
	case "Accept-Language":
		return m, languageRange(m.what)
	case "Accept-Encoding":
		return m, token(m.what)
	}
	return m, m.mediaRange()
}

// weight parses a qvalue, RFC 9110 section 12.4.2, as thousandths.
func weight(s string) (int, bool) {
	if s == "" || len(s) > len("0.000") || s[0] != '0' && s[0] != '1' || len(s) > 1 && s[1] != '.' {
		return 0, false
	}
	q, unit := int(s[0]-'0')*1000, 100
	for i := 2; i < len(s); i++ {
		if !digit(s[i]) {
			return 0, false
		}
		q += int(s[i]-'0') * unit
		unit /= 10
	}
	return q, q <= 1000
}

// languageRange reports whether s is a basic language range, RFC 4647 section 2.1.
func languageRange(s string) bool {
	if s == "*" {
		return true
	}
	first := true
	for sub := range strings.SplitSeq(s, "-") {
		if len(sub) < 1 || len(sub) > 8 {
			return false
		}
		for i := range len(sub) {
			if !alpha(sub[i]) && (first || !digit(sub[i])) {
				return false
			}
		}
		first = false
	}
	return true
}

// mediaRange reports whether m is a media range, RFC 9110 section 12.5.1. It may
// have parameters, but none with a quoted value or with blanks around it, and no
// second weight. Values of parameters can depend on case, so the case of all
// parameters is kept.
func (m *preference) mediaRange() bool {
	kind, parameters, _ := strings.Cut(m.what, ";")
	m.fold = len(kind)
	major, minor, ok := strings.Cut(kind, "/")
	if !ok || !token(major) || !token(minor) || major == "*" && minor != "*" {
		return false
	}
	if m.fold == len(m.what) {
		return true
	}
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, ok := strings.Cut(parameter, "=")
		if !ok || !token(name) || !token(value) || len(name) == 1 && name[0]|0x20 == 'q' {
			return false
		}
	}
	return true
}

// add inserts m at its place. It reports false if there are too many members, or
// if m is there already with another weight.
func (p *preferences) add(m preference) bool {
	at := p.n
	for i := range p.n {
		switch c := m.compare(&p.all[i]); {
		case c == 0:
			return m.q == p.all[i].q
		case at == p.n && (m.q > p.all[i].q || m.q == p.all[i].q && c < 0 && !p.ordered):
			at = i
		}
	}
	if p.n == maxPreferences {
		return false
	}
	copy(p.all[at+1:p.n+1], p.all[at:p.n])
	p.all[at] = m
	p.n++
	return true
}

// compare compares the names of a and b as they are written in canonical form.
func (m *preference) compare(b *preference) int {
	for i := 0; i < len(m.what) && i < len(b.what); i++ {
		if x, y := m.at(i), b.at(i); x != y {
			return int(x) - int(y)
		}
	}
	return len(m.what) - len(b.what)
}

// at returns the byte i of the canonical name.
func (m *preference) at(i int) byte {
	c := m.what[i]
	if i < m.fold && c >= 'A' && c <= 'Z' {
		c |= 0x20
	}
	return c
}

// append appends the canonical form: "de, en;q=0.5". That is a valid field with the
// same meaning. Fields that are compared by their bytes are not valid, so none of
// them equals a canonical form.
func (p *preferences) append(b []byte) []byte {
	for i := range p.n {
		m := &p.all[i]
		if i > 0 {
			b = append(b, ", "...)
		}
		for j := range len(m.what) {
			b = append(b, m.at(j))
		}
		if m.q == 1000 {
			continue
		}
		b = append(b, ";q=0"...)
		if m.q > 0 {
			b = append(b, '.')
			for rest, unit := m.q, 100; rest > 0; unit /= 10 {
				b = append(b, '0'+byte(rest/unit))
				rest %= unit
			}
		}
	}
	return b
}
