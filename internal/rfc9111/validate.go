package rfc9111

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Validators replaces the client's conditions in the request fields h with those
// that validate a stored response (RFC 9111 section 4.3.1), and reports whether
// the stored fields have a validator. Range is removed as well, because the whole
// response is requested. Without a validator, h is left without conditions.
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

// Validates reports whether a 304 with the fields update refers to the stored
// response whose validators were sent (RFC 9111 section 4.3.4). A strong
// validator must be identical to the stored one; a weak one must match it weakly.
// Last-Modified counts as weak, and only if there is no ETag. A 304 without a
// validator cannot refer to anything else.
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

// first returns the first value of a field, trimmed, or "" if there is none.
func first(h http.Header, name string) string {
	if lines := h[name]; len(lines) > 0 {
		return trim(lines[0])
	}
	return ""
}

// UnchangedSince reports whether the request fields h have an If-Modified-Since
// that a stored response without Last-Modified satisfies: its Date, or the time
// received if it has none, is not later (RFC 9111 section 4.3.2). It reports false
// where another condition takes precedence (RFC 9110 section 13.2.2).
func UnchangedSince(h, stored http.Header, received time.Time) bool {
	since := h["If-Modified-Since"]
	if len(since) != 1 || len(h["If-None-Match"]) > 0 || len(h["If-Match"]) > 0 || len(stored["Last-Modified"]) > 0 {
		return false
	}
	limit, ok := httpDate(since[0], received)
	return ok && !dateOf(stored, received).Truncate(time.Second).After(limit)
}

// Outdated reports whether the response to a HEAD, with this status and these fields,
// shows that the stored response to a GET is not the current one (RFC 9111 section
// 4.3.5). length is that of the stored content. A status that says nothing about the
// resource shows nothing, and lengths in other codings are not compared.
func Outdated(stored http.Header, length int64, status int, head http.Header) bool {
	if status != http.StatusOK {
		return status == http.StatusNotFound || status == http.StatusGone
	}
	if !Validates(stored, head) {
		return true
	}
	n, err := strconv.ParseInt(first(head, "Content-Length"), 10, 64)
	return err == nil && n != length && contentCoding(stored) == contentCoding(head)
}
