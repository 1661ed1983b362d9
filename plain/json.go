package plain

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON makes an encoded value safe to show to people. Hidden characters, which occur
// only in strings, are written as JSON escapes, so that a program decodes the same
// value. The user and password of URLs are removed. Line breaks between values are
// kept.
func JSON(encoded []byte) []byte {
	if bytes.Contains(encoded, []byte("://")) && bytes.IndexByte(encoded, '@') >= 0 {
		encoded = []byte(WithoutUser(string(encoded)))
	}
	i := bytes.IndexFunc(encoded, hiddenInJSON)
	if i < 0 {
		return encoded
	}
	b := make([]byte, 0, len(encoded)+16)
	b = append(b, encoded[:i]...)
	for i < len(encoded) {
		r, size := utf8.DecodeRune(encoded[i:])
		switch {
		case !hiddenInJSON(r) && !(r == utf8.RuneError && size == 1):
			b = append(b, encoded[i:i+size]...)
		case r <= 0xffff:
			b = appendUnit(b, r)
		default:
			high, low := utf16.EncodeRune(r)
			b = appendUnit(appendUnit(b, high), low)
		}
		i += size
	}
	return b
}

// hiddenInJSON excludes line breaks and tabs: they are layout, and JSON strings cannot
// contain them unescaped.
func hiddenInJSON(r rune) bool { return r != '\n' && r != '\t' && r != '\r' && hidden(r) }

func appendUnit(b []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
