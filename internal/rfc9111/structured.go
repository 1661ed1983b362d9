package rfc9111

import "strings"

// An sfKind is a type of a structured field's value, RFC 9651 section 3.
type sfKind uint8

const (
	sfBoolean sfKind = iota
	sfInteger
	sfDecimal
	sfString
	sfToken
	sfBytes
	sfDate
	sfDisplay
	sfList // an inner list
)

// An sfValue is the value of a member. For most types only the syntax is checked.
type sfValue struct {
	kind    sfKind
	integer int64 // of an Integer; 1 for the Boolean true
}

// An sfParser parses a structured field from the front. Each of its methods
// reports whether the field is valid so far.
type sfParser struct{ s string }

// parseDictionary parses a Dictionary, RFC 9651 section 4.2.2, and reports
// whether s is valid. It can be empty.
func parseDictionary(s string) (map[string]sfValue, bool) {
	p := sfParser{strings.Trim(s, " ")}
	members := make(map[string]sfValue)
	for p.s != "" {
		name, ok := p.key()
		if !ok {
			return nil, false
		}
		v := sfValue{sfBoolean, 1}
		if p.eat('=') {
			v, ok = p.itemOrList()
		} else {
			ok = p.parameters()
		}
		if !ok {
			return nil, false
		}
		members[name] = v
		p.s = strings.TrimLeft(p.s, " \t")
		if p.s == "" {
			break
		}
		if !p.eat(',') {
			return nil, false
		}
		if p.s = strings.TrimLeft(p.s, " \t"); p.s == "" {
			return nil, false // a trailing comma
		}
	}
	return members, true
}

// eat removes c from the front, if it is there.
func (p *sfParser) eat(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

// take cuts off the longest prefix of bytes that ok accepts.
func (p *sfParser) take(ok func(c byte) bool) string {
	n := 0
	for n < len(p.s) && ok(p.s[n]) {
		n++
	}
	t := p.s[:n]
	p.s = p.s[n:]
	return t
}

func lower(c byte) bool { return c >= 'a' && c <= 'z' }
func alpha(c byte) bool { return lower(c | 0x20) }
func digit(c byte) bool { return c >= '0' && c <= '9' }

func (p *sfParser) key() (string, bool) {
	if p.s == "" || !lower(p.s[0]) && p.s[0] != '*' {
		return "", false
	}
	return p.take(func(c byte) bool {
		return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0
	}), true
}

func (p *sfParser) itemOrList() (sfValue, bool) {
	if p.eat('(') {
		for {
			p.s = strings.TrimLeft(p.s, " ")
			if p.eat(')') {
				return sfValue{kind: sfList}, p.parameters()
			}
			if _, ok := p.bare(); !ok || !p.parameters() {
				return sfValue{}, false
			}
			if p.s == "" || p.s[0] != ' ' && p.s[0] != ')' {
				return sfValue{}, false
			}
		}
	}
	v, ok := p.bare()
	return v, ok && p.parameters()
}

func (p *sfParser) parameters() bool {
	for p.eat(';') {
		p.s = strings.TrimLeft(p.s, " ")
		if _, ok := p.key(); !ok {
			return false
		}
		if p.eat('=') {
			if _, ok := p.bare(); !ok {
				return false
			}
		}
	}
	return true
}

// bare parses a bare item, RFC 9651 section 4.2.3.1.
func (p *sfParser) bare() (sfValue, bool) {
	if p.s == "" {
		return sfValue{}, false
	}
	switch c := p.s[0]; {
	case c == '-' || digit(c):
		return p.number()
	case c == '"':
		p.s = p.s[1:]
		return sfValue{kind: sfString}, p.text()
	case c == '*' || alpha(c):
		p.take(func(c byte) bool { return isToken(c) || c == ':' || c == '/' })
		return sfValue{kind: sfToken}, true
	case c == ':':
		p.s = p.s[1:]
		p.take(func(c byte) bool { return alpha(c) || digit(c) || strings.IndexByte("+/=", c) >= 0 })
		return sfValue{kind: sfBytes}, p.eat(':')
	case c == '?':
		p.s = p.s[1:]
		if p.eat('1') {
			return sfValue{sfBoolean, 1}, true
		}
		return sfValue{sfBoolean, 0}, p.eat('0')
	case c == '@':
		p.s = p.s[1:]
		v, ok := p.number()
		return sfValue{kind: sfDate}, ok && v.kind == sfInteger
	case strings.HasPrefix(p.s, `%"`):
		p.s = p.s[2:]
		return sfValue{kind: sfDisplay}, p.display()
	}
	return sfValue{}, false
}

// number parses an Integer of at most 15 digits, or a Decimal with at most 12
// digits before the point and 3 after it.
func (p *sfParser) number() (sfValue, bool) {
	negative := p.eat('-')
	whole := p.take(digit)
	if whole == "" || len(whole) > 15 {
		return sfValue{}, false
	}
	if p.eat('.') {
		part := p.take(digit)
		return sfValue{kind: sfDecimal}, len(whole) <= 12 && len(part) >= 1 && len(part) <= 3
	}
	n := int64(0)
	for i := range len(whole) {
		n = n*10 + int64(whole[i]-'0')
	}
	if negative {
		n = -n
	}
	return sfValue{sfInteger, n}, true
}

// text parses a String after its opening quote.
func (p *sfParser) text() bool {
	for i := 0; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.s = p.s[i+1:]
			return true
		case c == '\\':
			if i++; i == len(p.s) || p.s[i] != '"' && p.s[i] != '\\' {
				return false
			}
		case c < ' ' || c > '~':
			return false
		}
	}
	return false
}

// display parses a Display String after its opening quote. It does not check that
// the bytes are UTF-8, which is irrelevant here.
func (p *sfParser) display() bool {
	hex := func(c byte) bool { return digit(c) || c >= 'a' && c <= 'f' }
	for i := 0; i < len(p.s); i++ {
		switch c := p.s[i]; {
		case c == '"':
			p.s = p.s[i+1:]
			return true
		case c == '%':
			if i+2 >= len(p.s) || !hex(p.s[i+1]) || !hex(p.s[i+2]) {
				return false
			}
			i += 2
		case c < ' ' || c > '~':
			return false
		}
	}
	return false
}
