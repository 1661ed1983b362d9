package judge

import (
	"net/http"
	"slices"
	"strings"
)

// seenAlike is a client's request as the origin would see it.
func (rec *Record) seenAlike(b *exchange) Seen {
	s := Seen{
		Method: b.request.Method, Target: b.request.Target, Body: b.request.Body, Header: rec.forwarded(b.request.Header()),
		Address: b.client.Address, Program: b.client.Identity,
	}
	if rec.History.Route.TLS {
		s.Certificate = b.client.Certificate
	}
	return s
}

// forwarded removes what the route ignores.
func (rec *Record) forwarded(h http.Header) http.Header {
	for name := range h {
		if rec.ignored(name, h[name]) {
			delete(h, name)
		}
	}
	return h
}

func (rec *Record) ignored(name string, lines []string) bool {
	route := rec.History.Route
	if slices.Contains(route.Ignore, name) {
		return true
	}
	if !slices.Contains(route.Ignore, "*") || slices.Contains(route.Vary, name) {
		return false
	}
	switch KindOf(name, lines) {
	case KindCredential, KindBody, KindNegotiation, KindCondition, KindRequest, KindBaggage:
		return false
	}
	return true
}

// doubtful reports whether "*" perhaps removes a field: Baggage is tracing, and counts.
func (rec *Record) doubtful(kind Kind) bool {
	return kind == KindBaggage && slices.Contains(rec.History.Route.Ignore, "*")
}

// leaked names a field that the origin got though the route ignores it. Of "*" it looks
// only at those that surely are of the client, and only at requests that could share: the
// contract says nothing of others.
func (rec *Record) leaked(c *Call) string {
	if !rec.simple(c) || c.Seen.Method == http.MethodPost && (rec.History.Way != Read || c.Seen.Header.Get("Content-Type") == "") {
		return ""
	}
	for name, lines := range c.Seen.Header {
		if slices.Contains(rec.History.Route.Ignore, name) {
			return name
		}
		switch KindOf(name, lines) {
		case KindUnknown, KindIdentity, KindPart:
			if rec.ignored(name, lines) {
				return name
			}
		}
	}
	return ""
}

// uncompared reports whether the route's unkeyed fields cover one.
func (rec *Record) uncompared(name string, kind Kind) bool {
	switch kind {
	case KindCredential, KindForwarding, KindPart, KindOverride, KindOrigin:
		return false
	}
	for _, pattern := range rec.History.Route.Unkeyed {
		prefix, open := strings.CutSuffix(pattern, "*")
		if name == pattern || open && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
