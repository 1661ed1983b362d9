package judge

import (
	"net/http"
	"slices"
)

// forbiddenByFields is the rule of decision 0090 itself.
func (rec *Record) forbiddenByFields(c *Call, b *exchange, w words) string {
	k := rec.useOf(c, b)
	seen, sent := c.Seen, rec.seenAlike(b)
	for _, name := range fieldNames(seen.Header, sent.Header) {
		kind := KindOf(name, append(append([]string(nil), seen.Header[name]...), sent.Header[name]...))
		if rec.uncompared(name, kind) || rec.doubtful(kind) && seen.Header[name] == nil || !differ(name, kind, seen.Header, sent.Header) {
			continue
		}
		if rec.countsSurely(kind, k, w, seen.Header[name] != nil) {
			class := string(kind)
			if kind == KindUnknown && name == "Dnt" {
				class = "signal"
			}
			return "a field of kind " + class + " differs" + k.String()
		}
	}
	if !k.strict || rec.History.Way == Private {
		if k.strict && seen.Program != sent.Program {
			return "what the program knows differs" + k.String()
		}
		return ""
	}
	switch {
	case seen.Certificate != sent.Certificate:
		return "the certificate differs" + k.String()
	case seen.Program != sent.Program:
		return "what the program knows differs" + k.String()
	case seen.Address != sent.Address && !k.lifetime && !k.perhaps && !rec.History.Route.AnyClient && !slices.Contains(rec.History.Route.Ignore, "*"):
		return "the address differs" + k.String()
	}
	return ""
}

// String is for the class of a fault.
func (k use) String() string {
	switch {
	case !k.strict:
		return ", by the origin's words"
	case k.routeLifetime:
		return ", strict, with a lifetime of the route"
	case k.lifetime:
		return ", strict, with a lifetime of the origin"
	}
	return ", strict, without a lifetime"
}

// countsSurely reports whether a difference in a field of that kind forbids sharing.
func (rec *Record) countsSurely(kind Kind, k use, w words, called bool) bool {
	route := rec.History.Route
	switch kind {
	case KindForwarding, KindPart, KindOverride:
		return true
	case KindOrigin:
		return w.header.Get("Access-Control-Allow-Origin") != "*"
	case KindIdentity:
		return k.strict || !w.says("public") && !w.says("s-maxage")
	case KindUnknown, KindBaggage:
		return k.strict
	case KindRepeat:
		return k.strict && rec.History.Way != Read
	case KindPage:
		return k.strict && (called || !k.routeLifetime && !k.perhaps)
	case KindNegotiation:
		return k.strict && !k.routeLifetime && route.TTL == 0 && route.Heuristic == 0 && route.ErrorTTL == 0
	case KindAddress:
		return k.strict && !k.lifetime && !k.perhaps && !route.AnyClient
	}
	return false
}

// fieldNames returns the names of both, in order.
func fieldNames(a, b http.Header) []string {
	var names []string
	for name := range a {
		names = append(names, name)
	}
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// differ reports whether a field surely has another value, line by line.
func differ(name string, kind Kind, a, b http.Header) bool {
	switch kind {
	case KindNegotiation:
		return !sameMeaning(name, a[name], b[name])
	case KindBaggage:
		return !slices.Equal(countedBaggage(a[name]), countedBaggage(b[name]))
	case KindForwarding:
		if name == "X-Forwarded-Client-Cert" && a[name] != nil && b[name] != nil {
			return !slices.Equal(workloads(a[name]), workloads(b[name]))
		}
	}
	return (a[name] == nil) != (b[name] == nil) || !slices.Equal(a[name], b[name])
}
