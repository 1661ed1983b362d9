package httpwire

// isToken marks the bytes of a token (RFC 9110, section 5.6.2), isValue those of a field
// value, blanks included (section 5.5), and hexDigit holds the value of a hexadecimal digit
// plus one.
var (
	isToken  = table(func(b byte) bool { return alphanumeric(b) || index("!#$%&'*+-.^_`|~", b) })
	isValue  = table(func(b byte) bool { return b >= ' ' && b != 0x7f || b == '\t' })
	hexDigit = digits()
)

func table(has func(byte) bool) (t [256]bool) {
	for i := range t {
		t[i] = has(byte(i))
	}
	return t
}

func digits() (t [256]uint8) {
	for i, d := range "0123456789abcdef" {
		t[d] = uint8(i + 1)
	}
	for i, d := range "ABCDEF" {
		t[d] = uint8(i + 11)
	}
	return t
}

func alphanumeric(b byte) bool {
	return 'a' <= lower(b) && lower(b) <= 'z' || '0' <= b && b <= '9'
}

func index(s string, b byte) bool {
	for i := range len(s) {
		if s[i] == b {
			return true
		}
	}
	return false
}

// IsToken reports whether text is a token: a method, or the name of a field.
func IsToken(text string) bool {
	for i := range len(text) {
		if !isToken[text[i]] {
			return false
		}
	}
	return text != ""
}

// IsValue reports whether text can be the value of a field.
func IsValue(text string) bool {
	for i := range len(text) {
		if !isValue[text[i]] {
			return false
		}
	}
	return true
}
