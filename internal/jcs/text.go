package jcs

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string, and returns it without escapes.
func (p *parser) text() (string, error) {
	p.at++ // the quotation mark
	from := p.at
	for p.at < len(p.in) { // usually there is no escape
		switch c := p.in[p.at]; {
		case c == '"':
			p.at++
			return string(p.in[from : p.at-1]), nil
		case c == '\\':
			return p.escaped(from)
		case c < ' ':
			return "", fail("a string has a control character")
		}
		p.at++
	}
	return "", errSyntax
}

// escaped continues text at the first escape.
func (p *parser) escaped(from int) (string, error) {
	var b strings.Builder
	b.Write(p.in[from:p.at])
	for p.at < len(p.in) {
		c := p.in[p.at]
		p.at++
		switch {
		case c == '"':
			return b.String(), nil
		case c < ' ':
			return "", fail("a string has a control character")
		case c != '\\':
			b.WriteByte(c)
			continue
		}
		r, err := p.escape()
		if err != nil {
			return "", err
		}
		b.WriteRune(r)
	}
	return "", errSyntax
}

// escape reads what follows a backslash.
func (p *parser) escape() (rune, error) {
	if p.at == len(p.in) {
		return 0, errSyntax
	}
	c := p.in[p.at]
	p.at++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
	default:
		return 0, errSyntax
	}
	r, err := p.unit()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if len(p.in)-p.at < 2 || p.in[p.at] != '\\' || p.in[p.at+1] != 'u' {
		return 0, fail("a string has half of a surrogate pair")
	}
	p.at += 2
	low, err := p.unit()
	if err != nil {
		return 0, err
	}
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, fail("a string has half of a surrogate pair")
	}
	return r, nil
}

// unit reads four hexadecimal digits.
func (p *parser) unit() (rune, error) {
	if len(p.in)-p.at < 4 {
		return 0, errSyntax
	}
	var r rune
	for _, c := range p.in[p.at : p.at+4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, errSyntax
		}
		r = r<<4 | rune(c)
	}
	p.at += 4
	return r, nil
}

// appendText appends s as RFC 8785 section 3.2.2.2 writes a string.
func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\b':
			b = append(b, `\b`...)
		case '\f':
			b = append(b, `\f`...)
		case '\n':
			b = append(b, `\n`...)
		case '\r':
			b = append(b, `\r`...)
		case '\t':
			b = append(b, `\t`...)
		default:
			if c < ' ' {
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			} else {
				b = append(b, c)
			}
		}
	}
	return append(b, '"')
}

// compareUTF16 compares strings by their UTF-16 code units (section 3.2.3). That is
// the order of runes, except that those above U+FFFF begin with a surrogate, and so
// come before U+E000 to U+FFFF.
func compareUTF16(a, b string) int {
	for a != "" && b != "" {
		x, n := utf8.DecodeRuneInString(a)
		y, m := utf8.DecodeRuneInString(b)
		if x != y {
			if (x > 0xFFFF) != (y > 0xFFFF) {
				x, y = firstUnit(x), firstUnit(y)
			}
			return int(x - y)
		}
		a, b = a[n:], b[m:]
	}
	return len(a) - len(b)
}

func firstUnit(r rune) rune {
	if r > 0xFFFF {
		r, _ = utf16.EncodeRune(r)
	}
	return r
}
