package once

import (
	"errors"
	"net/http"
	"strings"
)

// Field is the name of the field with the key of a request
// (draft-ietf-httpapi-idempotency-key-header).
const Field = "Idempotency-Key"

// MaxKey bounds the keys that Key accepts, in bytes without their quotes.
const MaxKey = 255

// ErrMalformedKey is the error of Key.
var ErrMalformedKey = errors.New("once: Idempotency-Key must be one string of 1 to 255 printable ASCII characters")

// Key returns the key in the fields of a request, "" if there is none. The field is an Item
// of RFC 9651 that is a string, with or without parameters. Many clients send it without
// the quotes, so that is accepted too. The error, for any other value and for several
// fields, is ErrMalformedKey.
func Key(h http.Header) (string, error) {
	lines := h[Field]
	if len(lines) == 0 {
		return "", nil
	}
	if len(lines) > 1 {
		return "", ErrMalformedKey
	}
	text := strings.Trim(lines[0], " \t")
	key, ok := bareKey(text)
	if strings.HasPrefix(text, `"`) {
		key, ok = quotedKey(text)
	}
	if !ok || key == "" || len(key) > MaxKey {
		return "", ErrMalformedKey
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
	key, rest, ok := quoted(text)
	return key, ok && isParameters(rest)
}

// quoted parses the string at the beginning of text, and returns what follows it.
func quoted(text string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], true
		case c == '\\':
			if i++; i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", "", false
			}
			b.WriteByte(text[i])
		case c < ' ' || c > '~':
			return "", "", false
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

// isParameters reports whether text consists only of an Item's parameters (RFC 9651,
// section 3.1.2), which have no meaning here. Their values are parsed only to find
// their ends.
func isParameters(text string) bool {
	for text != "" {
		rest, ok := strings.CutPrefix(text, ";")
		if !ok {
			return false
		}
		name, rest := token(strings.TrimLeft(rest, " \t"))
		if name == "" || name != strings.ToLower(name) {
			return false
		}
		if text, ok = strings.CutPrefix(rest, "="); !ok {
			continue
		}
		if strings.HasPrefix(text, `"`) {
			if _, text, ok = quoted(text); !ok {
				return false
			}
		} else if name, text = token(text); name == "" {
			return false
		}
	}
	return true
}

// token returns the characters at the beginning of text that can be in a token, and the rest.
func token(text string) (name, rest string) {
	end := strings.IndexFunc(text, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
	if end < 0 {
		end = len(text)
	}
	return text[:end], text[end:]
}
