package rfc9111

import (
	"net/http"
	"strings"
	"time"
)

// defaultTargeted is what a nil Policy.Targeted means.
var defaultTargeted = []string{"Cdn-Cache-Control"}

// directives reads those that count: of the first targeted field that is there
// and valid, else of Cache-Control. A targeted field replaces Cache-Control and
// Expires as a whole, RFC 9213 section 2.2.
func (p *Policy) directives(h http.Header) directives {
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

// readTargeted reads a targeted field, RFC 9213 section 2.1, and reports
// whether it counts: not if it is empty, or no dictionary. Parameters are passed
// over, and so are values of a type that the directive does not have. Of several
// members with a name the last one counts, as in every dictionary; a negative
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

// seconds is v as a time, None when it is of another type.
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

// yes reports whether v is the boolean true, which a bare name is.
func (v sfValue) yes() bool { return v.kind == sfBoolean && v.integer == 1 }

// fields reports whether v can be a list of fields, as in private="f".
func (v sfValue) fields() bool { return v.kind == sfString || v.kind == sfList }
