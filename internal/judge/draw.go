package judge

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// Abilities are options that a System may not have yet. Draw leaves out what is false.
type Abilities struct {
	Identity  bool // Options.Identity
	Unkeyed   bool // unkeyed_headers
	AnyClient bool // coalesce: any_client
	IgnoreAll bool // ignore_headers: ["*"]
}

// All are all abilities.
var All = Abilities{true, true, true, true}

// Draw makes the history of a seed. The abilities do not change the rest of it.
func Draw(seed uint64, can Abilities) History {
	d := drawer{Rand: rand.New(rand.NewPCG(seed, 90))}
	h := History{Seed: seed, Way: pick(d, Ways...)}
	d.plain = d.in(75) || h.Way == Fleet && d.in(30)
	h.Route = d.route()
	h.Origin = d.origin()
	if h.Way == Stream {
		h.Origin.Coding = "" // it cannot be seen whether a coded stream has ended properly
	}
	if d.plain {
		d.lifetime(&h)
	}
	if (h.Way == Stream || h.Way == Private) && d.in(35) {
		h.Route.TTL, h.Origin.Vary = time.Minute, nil // these are always strict, so fewer pairs must share
	} else {
		d.theme(&h)
	}
	h.Clients = d.clients()
	h.Steps = d.steps(h)
	return can.limit(h)
}

// limit removes what the System cannot do.
func (can Abilities) limit(h History) History {
	if !can.Identity {
		for i := range h.Clients {
			h.Clients[i].Identity = ""
		}
	}
	if !can.Unkeyed {
		h.Route.Unkeyed = nil
	}
	if !can.AnyClient {
		h.Route.AnyClient = false
	}
	if !can.IgnoreAll && len(h.Route.Ignore) == 1 && h.Route.Ignore[0] == "*" {
		h.Route.Ignore = nil
	}
	return h
}

// A drawer draws plain histories, in which most pairs must share unless a field that
// counts is different, and others, in which anything may happen.
type drawer struct {
	*rand.Rand
	plain bool
	focus string // a field that most requests have, with several values
	late  bool   // the second step comes after the lifetime, the others at once
}

// theme makes sure that some histories are about one thing: a field that the origin varies
// by, a 304 with a narrower Vary, a response without Vary beside others, a stale
// response, calls in flight without a stated lifetime.
func (d *drawer) theme(h *History) {
	vary := []string{"Accept-Language", "Accept", "Accept-Encoding", "X-Tenant", "Origin", "X-Plan", "User-Agent", "X-Scope-Orgid"}
	switch d.IntN(10) {
	case 6:
		if h.Way == Flight || h.Way == Stream {
			h.Route.TTL, h.Route.StaleWhileRevalidate, h.Route.StaleIfError, h.Route.Heuristic, h.Route.Force = 0, 0, 0, 0, false
			h.Origin = Origin{ETag: h.Origin.ETag}
			d.plain = true
		}
	case 5:
		d.late = true
		d.focus = pick(*d, "X-Scope-Orgid", "X-Scope-Orgid", "X-Plan", "Baggage", "Accept-Language")
		h.Origin.CacheControl, h.Origin.Vary, h.Origin.Status = pick(*d, "max-age=60", "max-age=60", "public, max-age=60", "max-age=0"), nil, nil
		h.Origin.Expires = 0
		if d.in(60) {
			h.Route.StaleWhileRevalidate = 100 * time.Second
		} else {
			h.Route.StaleIfError, h.Origin.Status = 100*time.Second, []int{200, 503}
		}
	case 0:
		d.focus = pick(*d, vary...)
		h.Origin.Vary = []string{pick(*d, d.focus, d.focus, d.focus, "Accept-Encoding\n"+d.focus)}
	case 1:
		d.focus = pick(*d, vary...)
		h.Origin.Vary = pick(*d, []string{"Accept-Encoding, " + d.focus, "Accept-Encoding"}, []string{d.focus, ""})
		h.Origin.ETag, d.late = true, true
		h.Origin.Cookie304 = d.in(25)
		if d.in(30) {
			h.Origin.Control304 = pick(*d, "private, max-age=60", "no-store", "no-cache", "public, max-age=60")
		}
	case 2:
		d.focus = pick(*d, vary...)
		h.Origin.Vary = pick(*d, []string{d.focus, ""}, []string{"", d.focus})
	case 3, 4:
		p := pick(*d, pools...)
		if !d.plain || !p.odd && !p.single {
			d.focus = p.draw(*d).Name
		}
	}
}

func (d drawer) in(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d drawer, from ...T) T { return from[d.IntN(len(from))] }

func (d drawer) route() Route {
	var r Route
	if d.in(45) {
		r.TTL = time.Minute
		r.Force = d.in(8)
	}
	if d.in(10) {
		r.ErrorTTL = 30 * time.Second
	}
	if d.in(20) {
		r.StaleWhileRevalidate = 100 * time.Second
	}
	if d.in(15) {
		r.StaleIfError = 100 * time.Second
	}
	if d.in(8) {
		r.Heuristic = 0.1
	}
	if d.in(12) {
		r.Vary = pick(d, []string{"X-Tenant"}, []string{"Accept-Language"}, []string{"Authorization"}, []string{"Cookie"}, []string{"X-Plan"})
	}
	if d.in(18) {
		r.Ignore = pick(d, []string{"*"}, []string{"*"}, []string{"X-Plan"}, []string{"Cookie"}, []string{"X-Api-Key", "Baggage"})
	}
	if d.in(15) {
		r.Unkeyed = pick(d, []string{"X-Acme-*"}, []string{"*"}, []string{"X-Plan"}, []string{"X-Api-Key", "Accept-Language"})
	}
	if r.Ignore != nil && r.Ignore[0] == "*" || r.Vary != nil && r.Unkeyed != nil || r.Ignore != nil && r.Unkeyed != nil {
		r.Unkeyed = nil // it would contradict the others
	}
	r.AnyClient = d.in(15)
	r.TLS = d.in(25)
	return r
}

// lifetime makes sure that somebody states one, and that responses can be stored.
func (d drawer) lifetime(h *History) {
	h.Route.Force = false
	o := &h.Origin
	o.Status, o.NeedsKey, o.Cookie = nil, false, false
	for i, vary := range o.Vary {
		if vary == "*" {
			o.Vary[i] = ""
		}
	}
	switch o.CacheControl {
	case "no-store", "no-cache", "private, max-age=60":
		o.CacheControl = ""
	}
	if h.Route.TTL == 0 && o.Expires == 0 && !strings.Contains(o.CacheControl, "=60") || h.Way == Private && strings.Contains(o.CacheControl, "s-maxage") {
		if d.in(60) {
			h.Route.TTL = time.Minute
		} else {
			o.CacheControl = pick(d, "max-age=60", "public, max-age=60")
		}
	}
}

func (d drawer) origin() Origin {
	o := Origin{
		ETag: d.in(45), LastModified: d.in(15), Cookie: d.in(3), Cookie304: d.in(15),
		NeedsKey: d.in(10), Parts: d.in(25), Rows: d.in(25),
	}
	lifetime := []string{
		"", "", "", "", "", "max-age=60", "max-age=60", "max-age=60", "s-maxage=60", "public, max-age=60",
		"max-age=0", "public", "max-age=60, must-revalidate", "private, max-age=60", "no-cache", "no-store",
		"max-age=10, stale-while-revalidate=30", "max-age=60, stale-if-error=60",
	}
	o.CacheControl = pick(d, lifetime...)
	if o.CacheControl == "" && d.in(15) {
		o.Expires = time.Minute
	}
	if d.in(30) {
		all := []string{"", "Accept-Language", "Accept-Encoding, Accept", "Accept-Encoding\nX-Plan", "X-Tenant", "Origin", "User-Agent", "Authorization", "Accept-Encoding", "X-Plan", "*"}
		for range 1 + d.IntN(2) {
			o.Vary = append(o.Vary, pick(d, all...))
		}
	}
	if d.in(10) {
		o.Status = pick(d, []int{404}, []int{200, 500}, []int{403}, []int{200, 404}, []int{429, 200}, []int{500})
	}
	if d.in(10) {
		o.Coding = "gzip"
	}
	if d.in(15) {
		o.Allow = pick(d, "*", "echo")
	}
	return o
}

func (d drawer) clients() []Client {
	base := Client{Address: "192.0.2.1", Certificate: pick(d, "", "", "alice")}
	clients := []Client{base}
	for range 2 {
		c := base
		if d.in(50) {
			c.Address = pick(d, "192.0.2.2", "2001:db8::3")
		}
		if d.in(25) {
			c.Certificate = pick(d, "", "bob")
		}
		if d.in(20) {
			c.Identity = pick(d, "alice", "bob")
		}
		clients = append(clients, c)
	}
	return clients
}

func (d drawer) steps(h History) []Step {
	base := d.request(h)
	count := 2 + d.IntN(4)
	atOnce := 15
	if h.Way == Flight {
		atOnce = 75
	}
	var steps []Step
	for i := range count {
		r := base
		if i > 0 {
			r = d.another(h, base)
		}
		if len(steps) > 0 && d.in(atOnce) {
			last := &steps[len(steps)-1]
			last.Requests = append(last.Requests, r)
			continue
		}
		s := Step{Requests: []Request{r}}
		if len(steps) > 0 {
			s.Wait = pick(d, 0, 0, 0, 5*time.Second, 5*time.Second, 20*time.Second, 75*time.Second)
			s.Purge = d.in(7)
			if d.plain && d.in(90) {
				s.Wait, s.Purge = min(s.Wait, 5*time.Second), false
			}
			if d.late {
				s.Wait, s.Purge = 0, false
				if len(steps) == 1 {
					s.Wait = 75 * time.Second
				}
			}
		}
		steps = append(steps, s)
	}
	return steps
}

func (d drawer) request(h History) Request {
	r := Request{Method: http.MethodGet, Target: "/page"}
	switch h.Way {
	case Read:
		r.Method, r.Body = pick(d, "POST", "POST", "POST", "QUERY"), `{"q":"mill"}`
		r.Fields = append(r.Fields, Field{"Content-Type", []string{"application/json"}})
	case Stream:
		r.Fields = append(r.Fields, Field{"Accept", []string{"text/event-stream"}})
	}
	for _, p := range pools {
		if p.in(h) && d.in(p.percent) && !(d.plain && p.odd && d.in(90)) {
			r.Fields = setField(r.Fields, p.draw(d))
		}
	}
	if d.in(75) {
		r.Fields = d.refocus(r.Fields)
	}
	return r
}

// refocus sets the field of the theme, if there is one.
func (d drawer) refocus(fields []Field) []Field {
	for _, p := range pools {
		for range 20 {
			if f := p.draw(d); d.focus != "" && f.Name == d.focus {
				return setField(fields, f)
			}
		}
	}
	return fields
}

// another returns a request like base, of any client. In half of them only what never
// counts is different.
func (d drawer) another(h History, base Request) Request {
	r := base
	r.Fields = append([]Field(nil), base.Fields...)
	if d.in(60) {
		r.Client = d.IntN(3)
	}
	if h.Way == Fleet {
		r.Instance = d.IntN(2)
	}
	for _, p := range pools {
		if p.neverCounts && d.in(20) {
			r.Fields = setField(r.Fields, p.draw(d))
		}
	}
	if d.in(50) || d.plain && (d.in(35) || (h.Way == Flight || h.Way == Stream) && d.in(40)) {
		return r
	}
	if d.focus != "" && d.in(60) {
		if d.in(20) {
			r.Fields = dropField(r.Fields, d.focus)
		} else {
			r.Fields = d.refocus(r.Fields)
		}
		return r
	}
	for range 1 + d.IntN(2) {
		p := pick(d, pools...)
		switch {
		case !p.in(h), d.plain && p.odd && d.in(70):
		case d.in(25):
			r.Fields = dropField(r.Fields, p.draw(d).Name)
		default:
			r.Fields = setField(r.Fields, p.draw(d))
		}
	}
	switch {
	case h.Way == Read && d.in(10):
		r.Body = `{"q":"wind"}`
	case h.Way != Read && h.Way != Stream && d.in(12):
		r.Method = http.MethodHead
	case h.Way == Store && d.in(4):
		r.Method, r.Body = http.MethodPost, "x"
	case d.in(3):
		r.Target = "/page?a=1"
	}
	return r
}

// A pool draws one field.
type pool struct {
	percent     int // how often the first request has it
	neverCounts bool
	odd         bool // keeps most requests from sharing at all
	single      bool // evaluated per request: not where the route reads bodies or shares events
	values      []Field
}

func (p pool) in(h History) bool   { return !p.single || h.Way != Read && h.Way != Stream }
func (p pool) draw(d drawer) Field { return pick(d, p.values...) }

func field(name string, lines ...string) Field { return Field{name, lines} }

// each makes a Field of name for each value.
func each(name string, values ...string) (all []Field) {
	for _, v := range values {
		all = append(all, field(name, v))
	}
	return all
}

func join(lists ...[]Field) (all []Field) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

var pools = []pool{
	{30, false, false, false, join(each("X-Scope-Orgid", "alice", "bob", ""), []Field{field("X-Scope-Orgid", "alice", "bob"), field("X-Scope-Orgid", "bob", "alice")})},
	{12, false, false, false, join(each("X-Plan", "gold", "iron"), each("Private-Token", "alice", "bob"), each("X-Acme-Correlation", "1", "2"))},
	{15, false, false, false, join(each("X-Api-Key", "alice", "bob"), each("X-Tenant", "alice", "bob"))},
	{8, false, true, false, each("Authorization", "Bearer alice", "Bearer bob", "Basic YTpi")},
	{8, false, true, false, each("Cookie", "session=alice", "session=bob", "theme=dark")},
	{20, false, false, false, each("Accept-Language", "de, en", "en, de", "de;q=0.5, en", "en, de;q=0.5", "fr")},
	{15, false, false, false, each("Accept-Encoding", "gzip, br", "br, gzip", "gzip", "identity", "gzip;q=0, *", "*;q=0")},
	{15, false, false, false, each("Accept", "application/json, text/html", "text/html, application/json", "text/event-stream", "*/*")},
	{40, true, false, false, join(each("Traceparent", "00-1-1-01", "00-2-2-01"), each("X-Request-Id", "1", "2", "3"), each("Cf-Ray", "a", "b"), each("X-B3-Traceid", "1", "2"), each("X-Envoy-Attempt-Count", "1", "2"))},
	{40, true, false, false, join(each("User-Agent", "curl/8", "Firefox/140"), each("Sec-Ch-Ua-Platform", "Linux", "macOS"), each("Sec-Fetch-Site", "none", "same-origin"), each("X-Stainless-Retry-Count", "0", "1"))},
	{12, false, false, false, each("Referer", "https://a.example/", "https://b.example/")},
	{4, false, true, false, join(each("Hx-Request", "true"), each("Turbo-Frame", "cart", "list"), each("Rsc", "1"), each("X-Requested-With", "XMLHttpRequest"))},
	{2, false, true, false, each("Prefer", "return=minimal", "return=representation")},
	{4, false, true, false, join(each("X-Forwarded-Host", "shop.example", "evil.example"), each("X-Forwarded-Proto", "https"), each("X-Original-Host", "evil.example"))},
	{6, false, false, false, each("Origin", "https://a.example", "https://b.example")},
	{2, false, true, false, join(each("X-Middleware-Prefetch", "1"), each("X-Nextjs-Data", "1"), each("X-Original-Url", "/admin"), each("X-Ms-Original-Url", "/admin"), each("X-Http-Method-Override", "POST"))},
	{8, false, false, false, each("Baggage", "user=alice", "user=bob", "sentry-trace_id=1", "sentry-trace_id=2", "sentry-trace_id=2,user=alice")},
	{6, false, true, false, join(each("X-Forwarded-For", "192.0.2.7", "192.0.2.8"), each("X-Real-Ip", "192.0.2.7"), each("True-Client-Ip", "192.0.2.7", "192.0.2.8"), each("Forwarded", "for=192.0.2.7", "host=evil.example"))},
	{8, false, false, false, each("X-Forwarded-Client-Cert", "By=spiffe://c/sa/weir;Hash=01;URI=spiffe://c/sa/shop", "By=spiffe://c/sa/weir;Hash=02;URI=spiffe://c/sa/shop",
		"By=spiffe://c/sa/weir;Hash=02;URI=spiffe://c/sa/till", "Hash=01;Subject=\"CN=a\"", "Hash=02;Subject=\"CN=a\"")},
	{8, false, false, false, join(each("Dnt", "0", "1"), each("Sec-Gpc", "1"), each("Save-Data", "on"), each("Cloudfront-Viewer-Country", "DE", "FR"))},
	{4, false, false, false, each("Idempotency-Key", "1", "2")},
	{5, false, true, true, each("Range", "bytes=0-67", "bytes=34-101", "rows=0-4", "0-4")},
	{4, false, true, true, join(each("If-None-Match", `"other"`, "*"), each("If-Match", `"other"`), each("If-Modified-Since", "Sat, 01 Jan 1994 00:00:00 GMT"), each("If-Range", `"other"`))},
	{4, false, true, true, join(each("Cache-Control", "no-cache", "max-age=0"), each("Pragma", "no-cache"))},
}

func setField(fields []Field, f Field) []Field {
	return append(dropField(fields, f.Name), f)
}

func dropField(fields []Field, name string) []Field {
	var left []Field
	for _, f := range fields {
		if f.Name != name {
			left = append(left, f)
		}
	}
	return left
}
