package judge_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/judge"
)

// A toy is a cache that is slow, small and right: it keeps every response, and evaluates
// no condition. Its rule says which responses it may give to whom.
type toy struct {
	history judge.History
	origin  http.Handler
	rule    rule
	part    string // what it leaves out besides

	refreshes sync.WaitGroup

	mu      sync.Mutex
	stored  []*entry           // guarded by mu; the newest last
	flights map[string]*flight // guarded by mu
}

type flight struct {
	done  chan struct{}
	entry *entry // written before done is closed, read only after
}

// A visit is a request as the toy forwards it.
type visit struct {
	client judge.Client
	judge.Request
	header http.Header
}

type entry struct {
	visit    *visit
	answer   judge.Reply
	received time.Time
	lifetime time.Duration // 0 means only for those in flight
	window   time.Duration // for which it is used stale after that
	beyond   bool          // the window is the route's, not the origin's
	own      bool          // the origin states a lifetime, or public
}

// A rule says whether an entry is for a visit. The URL, the method and the body are equal.
type rule func(h judge.History, e *entry, v *visit) bool

func openToy(r rule) judge.Open { return openToyWithout(r, "") }

func openToyWithout(r rule, part string) judge.Open {
	return func(h judge.History, origin http.Handler) (judge.System, error) {
		return &toy{history: h, origin: origin, rule: r, part: part, flights: map[string]*flight{}}, nil
	}
}

func (t *toy) Close() { t.refreshes.Wait() }

func (t *toy) Purge(target string) {
	if t.part == "purges" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stored = slices.DeleteFunc(t.stored, func(e *entry) bool { return e.visit.Target == target })
}

func (t *toy) Do(ctx context.Context, c judge.Client, r judge.Request) judge.Reply {
	v := &visit{client: c, Request: r, header: t.forwarded(r)}
	if !t.shares(v) {
		a, _ := t.call(ctx, v, nil)
		if r.Method == http.MethodPost && t.history.Way != judge.Read {
			t.Purge(r.Target)
		}
		return a
	}
	key := v.Method + v.Target + v.Body
	t.mu.Lock()
	var stale *entry
	for _, e := range slices.Backward(t.stored) {
		same := e.visit.Target == v.Target && e.visit.Body == v.Body && (e.visit.Method == v.Method || v.Method == http.MethodHead && e.visit.Method == http.MethodGet)
		if !same || !t.rule(t.history, e, v) || !t.varies(e, v) {
			continue
		}
		if time.Since(e.received) < e.lifetime {
			t.mu.Unlock()
			return head(v, e.answer)
		}
		if use, ok := t.stale(e, v); ok {
			t.mu.Unlock()
			t.refreshes.Go(func() {
				if e.answer.Header.Get("Etag") == "" {
					e = nil
				}
				_, fresh := t.call(ctx, v, e)
				t.keep(fresh)
			})
			return head(v, use.answer)
		}
		if stale == nil && v.Method == http.MethodGet && e.answer.Header.Get("Etag") != "" {
			stale = e
		}
	}
	if f, ok := t.flights[key]; ok && v.Method != http.MethodHead {
		t.mu.Unlock()
		<-f.done
		if f.entry != nil && t.rule(t.history, f.entry, v) {
			return f.entry.answer
		}
		a, e := t.call(ctx, v, nil)
		t.keep(e)
		return a
	}
	f := &flight{done: make(chan struct{})}
	t.flights[key] = f
	t.mu.Unlock()
	a, e := t.call(ctx, v, stale)
	t.keep(e)
	t.mu.Lock()
	if t.flights[key] == f {
		delete(t.flights, key)
	}
	t.mu.Unlock()
	f.entry = e
	close(f.done)
	return a
}

// stale returns e if v may have it stale.
func (t *toy) stale(e *entry, v *visit) (*entry, bool) {
	if time.Since(e.received) >= e.lifetime+e.window || v.Method != http.MethodGet {
		return nil, false
	}
	use := *e
	use.own = e.own && (!e.beyond || t.part == "the windows of the route")
	return &use, t.rule(t.history, &use, v)
}

func head(v *visit, a judge.Reply) judge.Reply {
	if v.Method == http.MethodHead {
		a.Body = ""
	}
	return a
}

// varies is RFC 9111, 4.1, for a response without Vary: it hides no variant.
func (t *toy) varies(e *entry, v *visit) bool {
	if strings.Join(e.answer.Header["Vary"], ",") != "" || t.part == "variants behind a response without Vary" {
		return true
	}
	for _, other := range t.stored {
		for _, name := range list(strings.Join(other.answer.Header["Vary"], ",")) {
			if !slices.Equal(e.visit.header[name], v.header[name]) {
				return false
			}
		}
	}
	return true
}

func (t *toy) keep(e *entry) {
	if e != nil && e.lifetime+e.window > 0 && e.visit.Method != http.MethodHead {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.stored = append(t.stored, e)
	}
}

func (t *toy) forwarded(r judge.Request) http.Header {
	h, route := r.Header(), t.history.Route
	for name := range h {
		all := slices.Contains(route.Ignore, "*") && !slices.Contains(route.Vary, name) &&
			!slices.Contains([]judge.Kind{judge.KindCredential, judge.KindBody, judge.KindNegotiation, judge.KindCondition, judge.KindRequest, judge.KindBaggage}, judge.KindOf(name, h[name]))
		if all || slices.Contains(route.Ignore, name) {
			delete(h, name)
		}
	}
	if route.TTL > 0 {
		delete(h, "Referer")
	}
	return h
}

// shares reports whether v may use anything of others at all.
func (t *toy) shares(v *visit) bool {
	for name, lines := range v.header {
		switch judge.KindOf(name, lines) {
		case judge.KindCondition, judge.KindOverride:
			return t.part == "conditions, ranges and overrides"
		}
	}
	return v.Method != http.MethodPost || t.history.Way == judge.Read
}

// validated is the stored response after a 304, as the client gets it, and as it is stored.
func (t *toy) validated(stale *entry, by304 http.Header) (a judge.Reply, e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stored = slices.DeleteFunc(t.stored, func(e *entry) bool { return e == stale })
	a = judge.Reply{Status: http.StatusOK, Header: stale.answer.Header.Clone(), Body: stale.answer.Body}
	for name, lines := range by304 {
		switch {
		case name == "Vary" && t.part != "the union of Vary":
			a.Header[name] = []string{strings.Join(append(a.Header[name], lines...), ", ")}
		case !strings.HasPrefix(name, "Content-"):
			a.Header[name] = lines
		}
	}
	e = &entry{visit: stale.visit, answer: a, received: time.Now()}
	e.answer.Header = a.Header.Clone()
	if t.part != "the cookie of a 304" {
		e.answer.Header.Del("Set-Cookie")
	}
	if t.part == "what a 304 takes back" {
		e.answer.Header.Set("Cache-Control", stale.answer.Header.Get("Cache-Control"))
	}
	return a, e
}

// call asks the origin, whether stale is still right if it is not nil. The entry is nil if
// the response is for no other client.
func (t *toy) call(ctx context.Context, v *visit, stale *entry) (judge.Reply, *entry) {
	r := v.HTTP(ctx, v.client, t.history.Route.TLS)
	r.Header = v.header.Clone()
	if stale != nil {
		r.Header.Set("If-None-Match", stale.answer.Header.Get("Etag"))
	}
	w := httptest.NewRecorder()
	t.origin.ServeHTTP(w, r)
	asked := judge.Reply{Status: w.Code, Header: w.Result().Header, Body: w.Body.String()}
	e := &entry{visit: v, answer: asked, received: time.Now()}
	if stale != nil && w.Code == http.StatusNotModified {
		asked, e = t.validated(stale, asked.Header)
	}
	return asked, t.judged(e)
}

// judged returns e with its lifetime, or nil if it is for no other client.
func (t *toy) judged(e *entry) *entry {
	a := e.answer
	cc := list(a.Header.Get("Cache-Control"))
	private := t.history.Way == judge.Private
	has := func(name string) bool { return slices.Contains(cc, name) }
	if a.Status != 200 || a.Header.Get("Set-Cookie") != "" && t.part != "the cookie of a 304" || strings.Contains(strings.Join(a.Header["Vary"], ","), "*") || has("No-Store") || has("No-Cache") || has("Private") && !private || a.Header.Get("Content-Range") != "" && t.part != "conditions, ranges and overrides" {
		return nil
	}
	for _, directive := range cc {
		name, value, _ := strings.Cut(directive, "=")
		if seconds, err := strconv.Atoi(value); err == nil && (name == "max-age" || name == "s-maxage" && !private) {
			e.lifetime = time.Duration(seconds) * time.Second
		}
	}
	explicit := e.lifetime > 0 || has("max-age=0")
	if expires, err := http.ParseTime(a.Header.Get("Expires")); err == nil && !strings.Contains(strings.Join(cc, ","), "max-age") {
		e.lifetime = time.Until(expires)
	}
	e.own = has("Public") || e.lifetime > 0
	if ttl := t.history.Route.TTL; ttl > 0 {
		e.lifetime = ttl
	}
	if explicit || e.lifetime > 0 {
		e.window, e.beyond = t.history.Route.StaleWhileRevalidate, true
	}
	for _, directive := range cc {
		if seconds, ok := strings.CutPrefix(directive, "stale-while-revalidate="); ok {
			n, _ := strconv.Atoi(seconds)
			e.window, e.beyond = time.Duration(n)*time.Second, t.history.Route.TTL > 0
		}
		if directive == "must-revalidate" || strings.HasPrefix(directive, "s-maxage") {
			e.window = 0
		}
	}
	return e
}

func list(s string) (all []string) {
	for _, member := range strings.Split(s, ",") {
		if member = strings.TrimSpace(member); member != "" {
			all = append(all, http.CanonicalHeaderKey(member))
		}
	}
	return all
}

// toyRule is the rule of decision 0090, where in doubt stricter.
func toyRule(h judge.History, e *entry, v *visit) bool { return without("")(h, e, v) }

// without is toyRule with a part of it left out.
func without(part string) rule {
	return func(h judge.History, e *entry, v *visit) bool {
		cc := e.answer.Header.Get("Cache-Control")
		open := strings.Contains(cc, "public") || strings.Contains(cc, "s-maxage")
		strict := part != "the strict rule" && (!e.own || v.Method == http.MethodPost && part != "the strict rule of POST" || h.Way == judge.Private || h.Way == judge.Stream)
		all := maps.Clone(e.visit.header)
		maps.Copy(all, v.header)
		for name, lines := range all {
			kind := judge.KindOf(name, lines)
			if kind == judge.KindCredential && !open && !slices.Contains(h.Route.Vary, name) && h.Way != judge.Private && part != "credential" {
				return false
			}
			if part != string(kind) && !slices.Equal(e.visit.header[name], v.header[name]) && counts(part, h, e, v, name, kind, strict, open) {
				return false
			}
		}
		if e.answer.Header.Get("Content-Encoding") != "" && part != "coding" && !slices.Contains([]string{"", "gzip", "gzip, br", "br, gzip"}, strings.Join(v.header["Accept-Encoding"], ",")) {
			return false
		}
		if !strict {
			return true
		}
		address := e.lifetime > 0 || h.Way == judge.Private || part == "address" || e.visit.client.Address == v.client.Address
		certificate := !h.Route.TLS || h.Way == judge.Private || part == "certificate" || e.visit.client.Certificate == v.client.Certificate
		return address && certificate && (part == "program" || e.visit.client.Identity == v.client.Identity)
	}
}

// counts reports whether a field that differs keeps requests apart.
func counts(part string, h judge.History, e *entry, v *visit, name string, kind judge.Kind, strict, open bool) bool {
	vary := slices.Concat(list(strings.Join(e.answer.Header["Vary"], ",")), h.Route.Vary)
	if part != "vary" && slices.Contains(vary, name) || kind == judge.KindCredential {
		return true
	}
	if unkeyed(h, name, kind) {
		return false
	}
	switch kind {
	case judge.KindRequest, judge.KindProgram, judge.KindCondition:
		return false
	case judge.KindNegotiation:
		return strict && h.Route.TTL == 0
	case judge.KindBaggage:
		return strict && ofNoTracer(e.visit.header) != ofNoTracer(v.header)
	case judge.KindUnknown, judge.KindPage:
		return strict
	case judge.KindRepeat:
		return strict && h.Way != judge.Read
	case judge.KindIdentity:
		return strict || !open
	}
	return true
}

func ofNoTracer(h http.Header) (members string) {
	for _, member := range strings.Split(h.Get("Baggage"), ",") {
		if !strings.HasPrefix(member, "sentry-") {
			members += member + ","
		}
	}
	return strings.Trim(members, ",")
}

func unkeyed(h judge.History, name string, kind judge.Kind) bool {
	switch kind {
	case judge.KindForwarding, judge.KindPart, judge.KindOverride, judge.KindOrigin, judge.KindCredential:
		return false
	}
	return slices.ContainsFunc(h.Route.Unkeyed, func(pattern string) bool {
		prefix, ok := strings.CutSuffix(pattern, "*")
		return name == pattern || ok && strings.HasPrefix(name, prefix)
	})
}
