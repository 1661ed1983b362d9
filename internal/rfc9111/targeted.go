package rfc9111

import (
	"net/http"
	"strings"
	"time"
)

// defaultTargeted applies if Policy.Targeted is nil.
var defaultTargeted = []string{"Cdn-Cache-Control"}

// directives returns the directives that apply: those of the first targeted field
// that is present and valid, otherwise those of Cache-Control. A targeted field
// replaces Cache-Control and Expires as a whole, RFC 9213 section 2.2. In a private
// cache none of that applies, and Cache-Control counts without the directives for
// shared caches, RFC 9111 sections 5.2.2.7, 5.2.2.8 and 5.2.2.10.
func (p *Policy) directives(h http.Header) directives {
	if p.Private {
		d := readCacheControl(h["Cache-Control"])
		d.private, d.proxyRevalidate, d.sMaxAge = false, false, None
		return d
	}
	targeted := p.Targeted
	if targeted == nil {
		targeted = defaultTargeted
	}
	for _, name := range targeted {
		lines := h[http.CanonicalHeaderKey(name)]
		if len(lines) == 0 {
			continue
		}
		if d, ok := readTargeted(strings.Join(lines, ",")); ok {
			return d
		}
	}
	return readCacheControl(h["Cache-Control"])
}

// readTargeted parses a targeted field, RFC 9213 section 2.1, and reports whether
// it counts: it does not if it is empty or not a dictionary. Parameters are
// ignored, and so are values of a type that the directive does not have. If a
// name is repeated, the last member counts, as in every dictionary. A negative
// time is 0.
func readTargeted(field string) (directives, bool) {
	members, ok := parseDictionary(field)
	if !ok || len(members) == 0 {
		return directives{}, false
	}
	d := nothing()
	d.targeted = true
	for name, v := range members {
		switch name {
		case "max-age":
			d.maxAge = v.seconds()
		case "s-maxage":
			d.sMaxAge = v.seconds()
		case "stale-while-revalidate":
			d.swr = v.seconds()
		case "stale-if-error":
			d.sie = v.seconds()
		case "no-store":
			d.noStore = v.yes()
		case "no-cache":
			d.noCache = v.yes() || v.fields()
		case "private":
			d.private = v.yes() || v.fields()
		case "public":
			d.public = v.yes()
		case "must-revalidate":
			d.mustRevalidate = v.yes()
		case "proxy-revalidate":
			d.proxyRevalidate = v.yes()
		case "must-understand":
			d.mustUnderstand = v.yes()
		}
	}
	return d, true
}

// seconds returns v as a time, or None if it has another type.
func (v sfValue) seconds() time.Duration {
	switch {
	case v.kind != sfInteger:
		return None
	case v.integer < 0:
		return 0
	case v.integer > int64(longest/time.Second):
		return longest
	}
	return time.Duration(v.integer) * time.Second
}

// yes reports whether v is the boolean true, which is also the value of a bare
// name.
func (v sfValue) yes() bool { return v.kind == sfBoolean && v.integer == 1 }

// fields reports whether v can be a list of fields, as in private="f".
func (v sfValue) fields() bool { return v.kind == sfString || v.kind == sfList }
