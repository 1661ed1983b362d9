package judge

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A Verdict says whether a request may get the response of another request's call.
type Verdict uint8

// The verdicts. The contract is silent about May.
const (
	May Verdict = iota
	Must
	MustNot
)

func (v Verdict) String() string { return [...]string{"may", "must", "must not"}[v] }

// margin keeps verdicts off the edges of lifetimes.
const margin = 2 * time.Second

// A Fault is a response against a verdict.
type Fault struct {
	Class string // faults with the same cause have the same class
	Text  string
}

// A Tally counts pairs of a call and another request, by verdict.
type Tally struct {
	Must, MustNot, May int
	Shared             int // answers with bytes of another request's call
}

// Pairs returns how many pairs were judged.
func (t Tally) Pairs() int { return t.Must + t.MustNot + t.May }

// Add adds o to t.
func (t *Tally) Add(o Tally) {
	t.Must += o.Must
	t.MustNot += o.MustNot
	t.May += o.May
	t.Shared += o.Shared
}

// Judge returns what was wrong in rec, and how many pairs of each verdict it had.
func Judge(rec *Record) ([]Fault, Tally) {
	var faults []Fault
	var tally Tally
	blame := func(class, format string, a ...any) {
		faults = append(faults, Fault{string(rec.History.Way) + ": " + class, fmt.Sprintf(format, a...)})
	}
	for _, c := range rec.calls {
		if name := rec.leaked(c); name != "" {
			blame("an ignored field is forwarded", "call %d has %s", c.Number, name)
		}
	}
	for _, b := range rec.exchanges {
		from := rec.bytesOf(b.answer)
		if m := fieldsOf(b.answer); m >= 0 {
			from[m] = true
		}
		own := rec.callsBy(b)
		for _, c := range rec.calls {
			if c.By == b.number || c.Start.After(b.end) {
				continue
			}
			reason := rec.forbidden(c, b)
			switch {
			case reason != "":
				tally.MustNot++
			case rec.required(c, b):
				tally.Must++
				if len(own) > 0 {
					blame("two calls where one must do", "request %d made call %d, though that of request %d, call %d, must be used", b.number, own[0].Number, c.By, c.Number)
				}
			default:
				tally.May++
			}
			if from[c.Number] {
				tally.Shared++
				if reason != "" && !b.answer.Broken {
					blame(reason, "request %d got the response to call %d, which was made for request %d: %s", b.number, c.Number, c.By, reason)
				}
			}
		}
		if n := cookieOf(b.answer); n >= 0 && rec.call(n) != nil && rec.call(n).By != b.number {
			blame("Set-Cookie of another", "request %d got Set-Cookie of call %d, which was made for request %d", b.number, n, rec.call(n).By)
		}
	}
	return faults, tally
}

// callsBy returns the calls that the system made for b.
func (rec *Record) callsBy(b *exchange) (calls []*Call) {
	for _, c := range rec.calls {
		if c.By == b.number {
			calls = append(calls, c)
		}
	}
	return calls
}

// words returns what the origin says in a response with these fields.
func (rec *Record) words(h http.Header) words {
	return words{h, rec.History.Way == Private, rec.History.Route.Force && rec.History.Route.TTL > 0}
}

// effective returns the fields under which b may use the response of c, and since when: a
// 304 that came after it has updated them.
func (rec *Record) effective(c *Call, b *exchange) (w words, since time.Time) {
	h, since := c.Header, c.Head
	if m := rec.validation(c, b); m != nil {
		since = m.Head
		if m.By != b.number { // for b the origin has said that the stored one is right
			h = updated(h, m.Header)
		}
	}
	return rec.words(h), since
}

// validation returns the last 304 that surely updated the response of c before b got it:
// the one that b's fields come from, or else one for the same validator, which only a cache
// sends.
func (rec *Record) validation(c *Call, b *exchange) (last *Call) {
	if m := rec.call(fieldsOf(b.answer)); m != nil && m.Number > c.Number && m.Status == http.StatusNotModified && rec.bytesOf(b.answer)[c.Number] {
		return m
	}
	etag := c.Header.Get("Etag")
	if etag == "" || c.Status != http.StatusOK || rec.History.Way == Fleet {
		return nil
	}
	for _, m := range rec.calls {
		if m.Status == http.StatusNotModified && m.Header.Get("Etag") == etag && m.Start.After(c.Head) && m.Head.Before(b.start) {
			last = m
		}
	}
	return last
}

// A use is a case of the rule.
type use struct {
	strict        bool // everything that counts must be equal
	routeLifetime bool // the route states a lifetime
	lifetime      bool // the route or the origin does
	perhaps       bool // a heuristic or a window might count as one
}

// ttl returns the lifetime that the route states for responses like that of c. A 304 stands
// for the 200 that it updates.
func (rec *Record) ttl(c *Call) time.Duration {
	switch c.Status {
	case 200, 203, 204, 206, 300, 301, 304, 308, 404, 405, 410, 414, 501:
		return rec.History.Route.TTL
	}
	return 0
}

// useOf says in which case of the rule b uses the response of c.
func (rec *Record) useOf(c *Call, b *exchange) use {
	w, since := rec.effective(c, b)
	route := rec.History.Route
	ttl := rec.ttl(c)
	k := use{
		routeLifetime: ttl > 0,
		lifetime:      ttl > 0 || w.lifetime() > 0 || w.says("public"),
		perhaps:       route.TTL > 0 || route.Heuristic > 0 || route.StaleIfError > 0 || route.StaleWhileRevalidate > 0 || route.ErrorTTL > 0 || w.window() > 0,
	}
	k.strict = !w.justify() || rec.History.Way == Stream || rec.History.Way == Private || c.Seen.Method == http.MethodPost
	if lifetime := cmpOr(ttl, w.lifetime()); !k.strict && !overlap(c, b) && b.start.Sub(since) > lifetime+w.window()+margin && !rec.validated(b) {
		k.strict = true // beyond the origin's own windows
		k.lifetime = true
		k.routeLifetime = true // decision 0090, "Where this deviates"
	}
	return k
}

// validated reports whether b got its response after a 304 to its own call, and not
// before one in the background.
func (rec *Record) validated(b *exchange) bool {
	return slices.ContainsFunc(rec.callsBy(b), func(own *Call) bool {
		return own.Status == http.StatusNotModified && !own.Head.After(b.end)
	})
}

func cmpOr(a, b time.Duration) time.Duration {
	if a > 0 {
		return a
	}
	return b
}

// overlap reports whether b came before the headers of c, or, of a stream, before its end.
func overlap(c *Call, b *exchange) bool { return !b.start.After(c.Head) }

// neverShared are the statuses that belong to one request.
var neverShared = []int{206, 304, 401, 403, 407, 408, 412, 416, 417, 421, 425, 426, 428, 429, 431, 511}

// forbidden returns why b must not get the response of c, or "".
func (rec *Record) forbidden(c *Call, b *exchange) string {
	seen, sent := c.Seen, rec.seenAlike(b)
	w, _ := rec.effective(c, b)
	switch {
	case seen.Target != sent.Target:
		return "another URL"
	case seen.Method != sent.Method && !(seen.Method == http.MethodGet && sent.Method == http.MethodHead) && !(seen.Method == http.MethodHead && c.Status == http.StatusNotModified) && seen.Method != http.MethodHead:
		return "another method"
	case seen.Method == http.MethodPost && rec.History.Way != Read:
		return "a POST that is not declared"
	case seen.Body != sent.Body:
		return "another body"
	}
	for _, p := range rec.purges {
		if p.target == seen.Target && c.Start.Before(p.at) && b.start.After(p.at) {
			return "purged"
		}
	}
	if reason := rec.forbiddenByResponse(c, b, w); reason != "" {
		return reason
	}
	if reason := rec.forbiddenByVary(c, b, w); reason != "" {
		return reason
	}
	if reason := rec.forbiddenByCredentials(c, b, w); reason != "" {
		return reason
	}
	if refuses(sent.Header["Accept-Encoding"], w.header.Get("Content-Encoding")) {
		return "the request does not accept the coding"
	}
	return rec.forbiddenByFields(c, b, w)
}

// asked reports whether the request that c was made for has a field that is evaluated for
// it alone, and the origin saw it.
func (rec *Record) asked(c *Call, names ...string) bool {
	if c.By < 0 {
		return false
	}
	h := rec.exchanges[c.By].request.Header()
	for _, name := range names {
		if len(h[name]) > 0 && slices.Equal(h[name], c.Seen.Header[name]) {
			return true
		}
	}
	return false
}

var conditions = []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range"}

// forbiddenByResponse is about the response of c alone: its status and its directives.
func (rec *Record) forbiddenByResponse(c *Call, b *exchange, w words) string {
	forced := rec.History.Route.Force && rec.History.Route.TTL > 0
	unit := strings.Join(c.Seen.Header["Range"], "")
	events := rec.History.Way == Stream && rec.History.Route.TTL > 0
	switch {
	case c.Header.Get("Set-Cookie") != "" && c.Status != http.StatusNotModified:
		return "a response with Set-Cookie"
	case w.says("no-store") && !forced:
		return "a response with no-store"
	case w.says("private") && !forced && !w.private:
		return "a response with private"
	case w.says("no-cache") && !forced && !rec.validated(b) && !events:
		return "a response with no-cache"
	case unit != "" && !strings.HasPrefix(unit, "bytes="):
		return "the response to a range of another unit"
	case c.Status == 200 && c.Header.Get("Content-Range") != "":
		return "a 200 with Content-Range"
	case c.Status == 412 || c.Status == 416:
		return fmt.Sprintf("a %d of another", c.Status)
	case slices.Contains(neverShared, c.Status) && c.Status != 206 && c.Status != 304 && (overlap(c, b) && !w.positive() || !w.stated()):
		return fmt.Sprintf("a %d of another", c.Status)
	case overlap(c, b) && c.Status != 304 && !w.stated() && rec.History.Route.TTL == 0 && rec.History.Route.Heuristic == 0 && rec.asked(c, append(conditions, "Range")...):
		return "in flight, the response to a condition or a range"
	case c.Status == 206 && b.answer.Status == 206 && len(b.request.Header()["Range"]) == 0:
		return "a part without a range"
	case b.answer.Status == 304 && len(rec.conditionsOf(b)) == 0:
		return "a 304 without a condition"
	}
	return ""
}

// conditionsOf returns the conditions of b's request.
func (rec *Record) conditionsOf(b *exchange) (found []string) {
	for _, name := range conditions {
		if len(b.request.Header()[name]) > 0 {
			found = append(found, name)
		}
	}
	return found
}

// forbiddenByVary is about Vary, that of the origin and that of the route.
func (rec *Record) forbiddenByVary(c *Call, b *exchange, w words) string {
	if c.Status == http.StatusNotModified {
		return "" // it is judged by the response that it updates, which was selected for its request
	}
	sent := rec.seenAlike(b)
	vary := w.vary()
	for _, name := range vary {
		if name == "*" {
			return "Vary: *"
		}
		if !rec.uncompared(name, KindOf(name, nil)) && variesIn(name, c.Seen.Header, sent.Header) {
			return "Vary does not match"
		}
	}
	for _, name := range rec.History.Route.Vary {
		if variesIn(name, c.Seen.Header, sent.Header) {
			return "the route's vary does not match"
		}
	}
	if len(vary) > 0 || overlap(c, b) || rec.History.Way != Store && rec.History.Way != Private {
		return ""
	}
	// RFC 9111, 4.1: a response without Vary hides no variant.
	for _, k := range rec.calls {
		if k == c || !rec.variantAt(k, c, b) {
			continue
		}
		for _, name := range rec.words(k.Header).vary() {
			if variesIn(name, c.Seen.Header, sent.Header) && variesIn(name, c.Seen.Header, k.Seen.Header) && !rec.uncompared(name, KindOf(name, nil)) {
				return "a response without Vary hides variants"
			}
		}
	}
	return ""
}

// variantAt reports whether the response of k is surely stored and fresh when b starts.
func (rec *Record) variantAt(k, c *Call, b *exchange) bool {
	w := rec.words(k.Header)
	for _, p := range rec.purges {
		if k.Start.Before(p.at) {
			return false
		}
	}
	for _, e := range rec.exchanges {
		if e.request.Method != http.MethodGet && e.start.After(k.Start) && e.start.Before(b.start) {
			return false // POST invalidates, and HEAD may
		}
	}
	return k.Seen.Method == http.MethodGet && k.Status == 200 && k.Seen.Target == c.Seen.Target &&
		!slices.Contains(w.vary(), "*") && k.Head.Before(b.start) && rec.storable(k, w) && rec.simple(k) &&
		b.start.Sub(k.Head) < cmpOr(rec.ttl(k), w.lifetime())-margin
}

// variesIn reports whether two requests surely differ in a field that Vary names.
func variesIn(name string, a, b http.Header) bool {
	if KindOf(name, nil) == KindNegotiation {
		return !sameMeaning(name, a[name], b[name])
	}
	join := func(h http.Header) string {
		return strings.ReplaceAll(strings.Join(h[name], ","), " ", "")
	}
	return (a[name] == nil) != (b[name] == nil) || join(a) != join(b)
}

// forbiddenByCredentials is about Authorization and Cookie.
func (rec *Record) forbiddenByCredentials(c *Call, b *exchange, w words) string {
	sent := rec.seenAlike(b)
	for _, name := range []string{"Authorization", "Cookie"} {
		switch {
		case c.Seen.Header[name] == nil && sent.Header[name] == nil:
		case rec.History.Way == Private || slices.Contains(rec.History.Route.Vary, name):
			if variesIn(name, c.Seen.Header, sent.Header) {
				return name + " differs"
			}
		case !w.takenBack() && (w.says("public") || w.says("s-maxage") || name == "Authorization" && w.says("must-revalidate")):
		default:
			return "a request with " + name
		}
	}
	return ""
}
