package rfc9111

import (
	"net/http"
	"strings"
	"time"
)

// Validators adds to the request fields h the conditions with which a stored
// response is validated (RFC 9111 section 4.3.1), in place of those that the
// client sent, and reports whether the stored fields have a validator. A Range
// goes as well: the whole response is requested. Without a validator h is left
// with no conditions.
func Validators(h, stored http.Header) bool {
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range"} {
		delete(h, name)
	}
	tag, modified := first(stored, "Etag"), first(stored, "Last-Modified")
	if tag != "" {
		h["If-None-Match"] = []string{tag}
	}
	if modified != "" {
		h["If-Modified-Since"] = []string{modified}
	}
	return tag != "" || modified != ""
}

// Validates reports whether a 304 with the fields update is about the stored
// response (RFC 9111 section 4.3.4), when that is the one whose validators were
// sent: with a strong validator, if it is the stored one's; with a weak one, if
// the two match weakly. Last-Modified counts as weak, and only without an ETag.
// A 304 without any validator can be about nothing else.
func Validates(stored, update http.Header) bool {
	if tag := first(update, "Etag"); tag != "" {
		have := first(stored, "Etag")
		if opaque, weak := strings.CutPrefix(tag, "W/"); weak {
			return opaque == strings.TrimPrefix(have, "W/")
		}
		return tag == have
	}
	if modified := first(update, "Last-Modified"); modified != "" {
		return sameDate(modified, first(stored, "Last-Modified"))
	}
	return true
}

// sameDate reports whether a and b are the same date, or the same text.
func sameDate(a, b string) bool {
	if a == b {
		return true
	}
	at, ok := httpDate(a, time.Time{})
	if !ok {
		return false
	}
	bt, ok := httpDate(b, time.Time{})
	return ok && at.Equal(bt)
}

// first is the first value of a field without the blanks around it, "" if there
// is none.
func first(h http.Header, name string) string {
	if lines := h[name]; len(lines) > 0 {
		return trim(lines[0])
	}
	return ""
}
