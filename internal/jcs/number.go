package jcs

import (
	"bytes"
	"math"
	"strconv"
)

// number reads a number.
func (p *parser) number() error {
	start := p.at
	digits := func() bool {
		from := p.at
		for p.at < len(p.in) && p.in[p.at] >= '0' && p.in[p.at] <= '9' {
			p.at++
		}
		return p.at > from
	}
	skip := func(any string) bool {
		if p.at < len(p.in) && bytes.IndexByte([]byte(any), p.in[p.at]) >= 0 {
			p.at++
			return true
		}
		return false
	}
	skip("-")
	if !skip("0") && !digits() {
		return errSyntax
	}
	if skip(".") && !digits() {
		return errSyntax
	}
	if skip("eE") {
		skip("+-")
		if !digits() {
			return errSyntax
		}
	}
	text := string(p.in[start:p.at])
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fail("a number is out of range")
	}
	p.lossy = p.lossy || !exact(text, f)
	p.out = AppendNumber(p.out, f)
	return nil
}

// exact reports whether text, a JSON number, has the same decimal value as the form of
// f.
func exact(text string, f float64) bool {
	d, e := decimal(text)
	fd, fe := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	return d == fd && (e == fe || d == "")
}

// maxExponent bounds the exponents that decimal computes with. Larger ones stand only
// before zeros: with other digits the number would be out of range, or 0.
const maxExponent = 1 << 30

// decimal returns the significant digits of a number, without its sign, and the
// exponent of the first: 0.0120e5 is "12", 3.
func decimal(text string) (digits string, exponent int) {
	var b []byte
	point, seen := 0, false
	for i := range len(text) {
		switch c := text[i]; {
		case c == '.':
			seen = true
		case c == 'e' || c == 'E':
			n, err := strconv.Atoi(text[i+1:])
			if err != nil || n > maxExponent || n < -maxExponent {
				n = maxExponent
			}
			return trimmed(b, point+n)
		case c != '-':
			b = append(b, c)
			if !seen {
				point++
			}
		}
	}
	return trimmed(b, point)
}

func trimmed(b []byte, point int) (digits string, exponent int) {
	all := len(b)
	b = bytes.TrimLeft(b, "0")
	return string(bytes.TrimRight(b, "0")), point - (all - len(b))
}

// AppendNumber appends f as ECMAScript prints it (RFC 8785 section 3.2.2.3). f must be
// finite.
func AppendNumber(b []byte, f float64) []byte {
	if f == 0 {
		return append(b, '0') // -0 too
	}
	if math.Signbit(f) {
		b, f = append(b, '-'), -f
	}
	digits, n := decimal(strconv.FormatFloat(f, 'e', -1, 64))
	switch k := len(digits); {
	case k <= n && n <= 21:
		b = append(b, digits...)
		return append(b, "000000000000000000000"[:n-k]...)
	case 0 < n && n <= 21:
		return append(append(append(b, digits[:n]...), '.'), digits[n:]...)
	case -6 < n && n <= 0:
		return append(append(append(b, "0."...), "000000"[:-n]...), digits...)
	}
	b = append(b, digits[0])
	if len(digits) > 1 {
		b = append(append(b, '.'), digits[1:]...)
	}
	b = append(b, 'e')
	if n > 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(n-1), 10)
}
