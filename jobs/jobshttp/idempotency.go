package jobshttp

import (
	"net/http"
	"strings"
)

// maxIdempotencyKey bounds an Idempotency-Key, in bytes without its quotes.
const maxIdempotencyKey = 255

// idempotencyKey parses Idempotency-Key (draft-ietf-httpapi-idempotency-key-header):
// an Item of RFC 9651 that is a string, with or without parameters. Many clients send
// it without the quotes, so that is accepted too. It returns errMalformedKey for any
// other value or a second field, and "" if there is no field.
func idempotencyKey(h http.Header) (string, error) {
	lines := h["Idempotency-Key"]
	if len(lines) == 0 {
		return "", nil
	}
	if len(lines) > 1 {
		return "", errMalformedKey
	}
	text := strings.Trim(lines[0], " \t")
	key, ok := bareKey(text)
	if strings.HasPrefix(text, `"`) {
		key, ok = quotedKey(text)
	}
	if !ok || key == "" || len(key) > maxIdempotencyKey {
		return "", errMalformedKey
	}
	return key, nil
}

// bareKey accepts one word without characters that are special in structured fields.
func bareKey(text string) (string, bool) {
	return text, !strings.ContainsFunc(text, func(c rune) bool {
		return c <= ' ' || c > '~' || strings.ContainsRune(`",;\`, c)
	})
}

// quotedKey parses a string as in RFC 9651, section 3.3.3.
func quotedKey(text string) (string, bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), isParameters(text[i+1:])
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			b.WriteByte(text[i])
		case c < ' ' || c > '~':
			return "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// isParameters reports whether text consists only of an Item's parameters (RFC 9651,
// section 3.1.2), which have no meaning here. Their values are parsed only to find
// their ends.
func isParameters(text string) bool {
	for s := (scanner{text: text}); !s.end(); {
		if !s.skip(';') {
			return false
		}
		s.spaces()
		name := s.token()
		if name == "" || name != strings.ToLower(name) {
			return false
		}
		if !s.skip('=') {
			continue
		}
		if !s.end() && s.text[s.at] == '"' {
			if _, ok := s.quoted(); !ok {
				return false
			}
		} else if s.token() == "" {
			return false
		}
	}
	return true
}
