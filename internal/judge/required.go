package judge

import (
	"net/http"
	"slices"
	"strings"
)

// storable reports whether the response of c is surely stored, its lifetime apart.
func (rec *Record) storable(c *Call, w words) bool {
	if c.Header.Get("Set-Cookie") != "" || c.Header.Get("Content-Range") != "" || w.says("no-store") || w.says("no-cache") || w.says("private") && !w.private {
		return false
	}
	for _, name := range []string{"Authorization", "Cookie"} {
		if c.Seen.Header[name] != nil && !rec.credentialsShare(name, w) {
			return false
		}
	}
	return true
}

// credentialsShare reports whether requests with equal values of a field surely share.
func (rec *Record) credentialsShare(name string, w words) bool {
	way := rec.History.Way
	return way == Private || w.says("public") && way != Fleet || slices.Contains(rec.History.Route.Vary, name) && way != Fleet
}

// simple reports whether the request that c was made for asks for nothing but the whole.
func (rec *Record) simple(c *Call) bool {
	return c.By >= 0 && rec.simpleRequest(rec.exchanges[c.By].request)
}

// simpleRequest knows that a request for an event stream shares only on a route of them.
func (rec *Record) simpleRequest(r Request) bool {
	events := strings.Contains(strings.Join(r.Header()["Accept"], ","), "text/event-stream")
	if events != (rec.History.Way == Stream) {
		return false
	}
	if rec.History.Way == Read && r.Method == http.MethodPost && strings.Join(r.Header()["Content-Type"], ",") != "application/json" {
		return false // no rule declares it
	}
	for name := range r.Header() {
		switch kind := KindOf(name, nil); {
		case kind == KindCondition, kind == KindOverride, name == "Forwarded", name == "Prefer":
			return false
		}
	}
	return true
}

// required reports whether b needs no separate call because of the response of c.
func (rec *Record) required(c *Call, b *exchange) bool {
	w := rec.words(c.Header)
	lifetime := cmpOr(rec.ttl(c), w.lifetime())
	switch {
	case c.Status != http.StatusOK || !rec.storable(c, w) || slices.Contains(w.vary(), "*"):
		return false
	case !rec.simple(c) || !rec.simpleRequest(b.request):
		return false
	case c.Seen.Method == http.MethodHead || b.request.Method == http.MethodHead && rec.History.Way != Store:
		return false
	case lifetime < 5*margin || b.start.Sub(c.Head) > lifetime-margin:
		return false
	case rec.History.Route.Force:
		return false
	case rec.History.Way == Fleet && len(rec.History.Origin.Vary) > 1:
		return false // what one instance learned last, the other has to hear of
	}
	a := rec.exchanges[c.By]
	if a.step == b.step {
		// At once: only what nothing was learned before, and only of the first.
		if credentials(a.request) || credentials(b.request) || a.step != 0 || a.place != 0 || b.place < a.place || b.request.Method != a.request.Method {
			return false
		}
	} else if !rec.undisturbed(c, b) {
		return false
	}
	return rec.surelyEqual(c, b, w)
}

// credentials reports whether r has some. It waits for no call, because nothing says yet
// that the response is for others.
func credentials(r Request) bool {
	h := r.Header()
	return h["Authorization"] != nil || h["Cookie"] != nil
}

// undisturbed reports whether nothing between c and b replaces or removes the response of
// c, or makes what is known of the URL another.
func (rec *Record) undisturbed(c *Call, b *exchange) bool {
	for _, p := range rec.purges {
		if p.at.After(c.Start) && !p.at.After(b.start) {
			return false
		}
	}
	if vary := rec.History.Origin.Vary; len(vary) > 1 && vary[0] != vary[1] {
		for _, v := range vary {
			for _, name := range rec.words(http.Header{"Vary": {v}}).vary() {
				if c.Seen.Header[name] != nil {
					return false // it may be stored before it is known that this field matters
				}
			}
		}
	}
	for _, e := range rec.exchanges[:b.number] {
		if e.request.Method == http.MethodPost && (rec.History.Way != Read || !rec.simpleRequest(e.request)) {
			return false
		}
	}
	for _, other := range rec.calls {
		if other.Head.Before(c.Start) || other.Start.After(b.start) {
			continue
		}
		w := rec.words(other.Header)
		if other.Status != http.StatusOK || other.By < 0 || other.Seen.Method == http.MethodHead || !rec.storable(other, w) && other.Header.Get("Set-Cookie") != "" || other.Header.Get("Content-Range") != "" {
			return false
		}
	}
	return true
}

// surelyEqual reports whether nothing that perhaps counts differs between c and b.
func (rec *Record) surelyEqual(c *Call, b *exchange, w words) bool {
	seen, sent := c.Seen, rec.seenAlike(b)
	route := rec.History.Route
	if seen.Target != sent.Target || seen.Body != sent.Body || refuses(sent.Header["Accept-Encoding"], w.header.Get("Content-Encoding")) || refuses(seen.Header["Accept-Encoding"], w.header.Get("Content-Encoding")) {
		return false
	}
	if w.header.Get("Content-Encoding") != "" && (seen.Header["Accept-Encoding"] == nil) != (sent.Header["Accept-Encoding"] == nil) {
		return false // who does not say what it accepts may accept nothing
	}
	k := rec.useOf(c, b)
	if rec.History.Way == Fleet && (route.StaleWhileRevalidate > 0 || route.StaleIfError > 0) {
		k.strict = true // a fleet keeps one set of names, see decision 0090
	}
	varied := append([]string{"Origin"}, route.Vary...)
	for _, v := range rec.History.Origin.Vary {
		varied = append(varied, rec.words(http.Header{"Vary": {v}}).vary()...)
	}
	for _, name := range fieldNames(seen.Header, sent.Header) {
		kind := KindOf(name, append(append([]string(nil), seen.Header[name]...), sent.Header[name]...))
		if kind == KindOverride {
			return false
		}
		if kind == KindCredential && sent.Header[name] != nil && !rec.credentialsShare(name, w) {
			return false
		}
		if slices.Equal(seen.Header[name], sent.Header[name]) || kind == KindBaggage && !rec.doubtful(kind) && !differ(name, kind, seen.Header, sent.Header) {
			continue
		}
		if rec.doubtful(kind) || slices.Contains(varied, name) || rec.countsPerhaps(name, kind, k, w) {
			return false
		}
	}
	if rec.History.Way == Private {
		return seen.Program == sent.Program
	}
	return !k.strict || seen.Certificate == sent.Certificate && seen.Program == sent.Program
}

// countsPerhaps reports whether a difference in a field of that kind perhaps forbids
// sharing where somebody states a lifetime.
func (rec *Record) countsPerhaps(name string, kind Kind, k use, w words) bool {
	if kind.never() {
		return false
	}
	if rec.uncompared(name, kind) {
		return false
	}
	switch kind {
	case KindIdentity:
		return k.strict || !w.says("public") && !w.says("s-maxage")
	case KindUnknown, KindBaggage, KindRepeat:
		return k.strict && !(kind == KindRepeat && rec.History.Way == Read)
	case KindPage:
		return k.strict && (!k.routeLifetime || rec.History.Way == Private || rec.History.Way == Stream)
	case KindNegotiation:
		return k.strict && !k.routeLifetime
	case KindAddress:
		return true // in the middleware, the decision and the contract differ
	}
	return true
}
