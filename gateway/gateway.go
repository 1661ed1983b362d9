package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"sync"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/gateway/internal/forward"
	"github.com/weir-go/weir/gateway/internal/route"
	"github.com/weir-go/weir/gateway/internal/upstream"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

var _ http.Handler = (*Gateway)(nil)

// A Gateway is a handler over upstreams. Make one with [New], and Close it. It
// is safe for concurrent use.
type Gateway struct {
	cache      *weirhttp.Cache
	loopID     string         // its name in CDN-Loop; the same for all Updates
	background sync.WaitGroup // the health checks of all pools

	// now is what the Gateway does. A request reads it once, without a lock, and
	// keeps to it.
	now                atomic.Pointer[state]
	closed             atomic.Bool
	unrouted, rejected atomic.Uint64

	mu sync.Mutex // of Update and Close; above the pools' mutexes
}

// A state is what a Gateway does between two Updates. It is not altered.
type state struct {
	config   Config
	name     string
	index    *route.Index
	handlers []*handler // by the number of the route in config and index
	sources  map[string]*source
}

// A handler answers the requests of one route.
type handler struct {
	route  Route
	source *source
	http   *weirhttp.Handler

	// What stays when the route changes; nil without Concurrency, or without a Rate.
	calls   *valve
	clients *weirhttp.ClientLimiter

	rejected *atomic.Uint64        // the Gateway's
	errors   weirhttp.ErrorHandler // the Gateway's
}

// A source is one upstream: what stays when its configuration changes.
type source struct {
	pool           *upstream.Pool
	calls, streams valve
	shared         *weirhttp.SharedLimiter // calls, with the bound on slow clients of all routes
}

// New returns a Gateway. Its error joins an [*OptionError] for every fault of c.
func New(c Config) (*Gateway, error) {
	g := &Gateway{cache: c.Cache, loopID: cdnloop.NewID()}
	if g.cache == nil {
		var err error
		if g.cache, err = weirhttp.NewCache(weirhttp.DefaultCacheBytes); err != nil {
			return nil, err
		}
	}
	if c.Fleet != nil && c.Fleet.Tier == nil {
		return nil, &OptionError{Package: "gateway", Field: "Fleet.Tier", Value: "nil", Bound: "set"}
	}
	if err := g.cache.JoinFleet(c.Fleet.options()); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if err := g.Update(c); err != nil {
		_ = g.cache.Close(context.Background()) // nothing was used yet
		return nil, err
	}
	return g, nil
}

// ServeHTTP answers r. After Close it answers 503.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b, ok := r.Context().Value(boundKey{}).(*bound); ok && b.gateway == g {
		weirhttp.SetReceipt(w, weirhttp.Receipt{Route: b.route})
		b.stored.ServeHTTP(w, r)
		return
	}
	s := g.now.Load()
	if status, text := forward.Refusal(w.Header(), r); status != 0 {
		g.refuse(w, r, s, weirhttp.ErrorResponse{Status: status, Text: text, Err: ErrRejected})
		return
	}
	if g.closed.Load() {
		g.refuse(w, r, s, weirhttp.ErrorResponseTo(weir.ErrClosed))
		return
	}
	if cdnloop.Passes(r.Header, g.loopID) >= s.passes() {
		g.loop(w, r, s)
		return
	}
	h := s.find(r)
	if h == nil {
		g.unrouted.Add(1)
		s.notFound(w, r)
		return
	}
	weirhttp.SetReceipt(w, weirhttp.Receipt{Route: h.route.Name}) // also for what never gets another
	if s.config.Front == nil && h.route.Rewrite == nil && h.route.MaxBody == 0 {
		h.http.ServeHTTP(w, r)
		return
	}
	if !h.http.Admit(w, r) {
		return
	}
	if s.config.Front != nil && !h.route.Observe {
		if front := s.config.Front(h.route.Name); front != nil {
			front.ServeHTTP(w, g.accepted(r))
			return
		}
	}
	h.serveAdmitted(w, r)
}

// ServeRoute answers r as the route of that name does, whatever r matches. It is
// for what stands before a route, and for requests that it makes later: neither
// Config.Front nor the route's Rate counts. It reports false, and has done
// nothing, if there is no such route, and after Close.
func (g *Gateway) ServeRoute(w http.ResponseWriter, r *http.Request, name string) bool {
	s := g.now.Load()
	i := slices.IndexFunc(s.handlers, func(h *handler) bool { return h.route.Name == name })
	if i < 0 || g.closed.Load() {
		return false
	}
	if cdnloop.Calls(r.Header, g.loopID) >= s.passes() {
		g.loop(w, r, s) // a job of a gateway that another one accepted
		return true
	}
	s.handlers[i].serveAdmitted(w, r)
	return true
}

// passes is how often a request may pass.
func (s *state) passes() int { return max(s.config.MaxPasses, 1) }

// loop answers a request that has passed before (H25). The answer is for nobody
// else, and no gateway on the way back may store or share it.
func (g *Gateway) loop(w http.ResponseWriter, r *http.Request, s *state) {
	weirhttp.SetReceipt(w, weirhttp.Receipt{Outcome: weirhttp.OutcomeRefused, Err: ErrLoop})
	g.refuse(w, r, s, weirhttp.ErrorResponse{
		Status: http.StatusLoopDetected, Text: "the request has passed this gateway before", Err: ErrLoop,
		ProxyStatus: s.name + "; error=proxy_loop_detected", // RFC 9209, section 2.3.31
	})
}

// writeError is the ErrorHandler of all routes: that of the Config there is.
func (g *Gateway) writeError(w http.ResponseWriter, r *http.Request, e weirhttp.ErrorResponse) {
	e.WriteWith(g.now.Load().config.ErrorHandler, w, r)
}

// refuse answers a request that no route gets.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, s *state, e weirhttp.ErrorResponse) {
	g.rejected.Add(1)
	e.WriteWith(s.config.ErrorHandler, w, r)
}

// accepted returns r with our name in CDN-Loop, for what makes requests later:
// it may be another process that forwards them.
func (g *Gateway) accepted(r *http.Request) *http.Request {
	marked := *r
	marked.Header = maps.Clone(r.Header)
	marked.Header[cdnloop.Field] = cdnloop.Accept(r.Header, g.loopID)
	return &marked
}

// find returns what answers r, or nil.
func (s *state) find(r *http.Request) *handler {
	if i := s.index.Find(r.Host, route.Path(r), r.Method); i != route.None {
		return s.handlers[i]
	}
	return nil
}

// notFound answers a request that no route matches.
func (s *state) notFound(w http.ResponseWriter, r *http.Request) {
	weirhttp.ErrorResponse{
		Status: http.StatusNotFound, Text: "no route matches this request", Err: ErrNoRoute,
		ProxyStatus: s.name + "; error=destination_not_found", // RFC 9209, section 2.3.3
	}.WriteWith(s.config.ErrorHandler, w, r)
}

// serveAdmitted answers r, which the route's Rate has admitted.
func (h *handler) serveAdmitted(w http.ResponseWriter, r *http.Request) {
	r, err := h.prepared(w, r)
	if err != nil {
		h.rejected.Add(1)
		h.errors(w, r, weirhttp.ErrorResponseTo(err))
		return
	}
	h.http.ServeAdmitted(w, r)
}

// prepared returns r as Route.Rewrite has it, with a body that ends at Route.MaxBody. A
// body that says that it is too long is refused at once, one that turns out to be
// while it is forwarded.
func (h *handler) prepared(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	if h.route.Rewrite != nil {
		own, err := rewritten(r, h.route.Rewrite)
		if err != nil {
			return r, err
		}
		r = own
	}
	if n := h.route.MaxBody; n > 0 && r.ContentLength != 0 {
		if r.ContentLength > n {
			return r, &http.MaxBytesError{Limit: n}
		}
		limited := *r
		limited.Body = http.MaxBytesReader(w, r.Body, n)
		r = &limited
	}
	return r, nil
}

// rewritten returns a copy of r that rewrite has changed: its URL, Host and Header. The
// rest stays, as do the gateways that r has passed.
func rewritten(r *http.Request, rewrite func(*http.Request)) (*http.Request, error) {
	own, u := *r, *r.URL
	own.URL, own.Header = &u, r.Header.Clone()
	if own.Header == nil {
		own.Header = http.Header{}
	}
	rewrite(&own)
	if own.URL == nil || own.Header == nil {
		return r, fmt.Errorf("%w: no URL or no Header", ErrRewrite)
	}
	changed := *r
	changed.Host, changed.Header = own.Host, own.Header
	delete(changed.Header, "Host") // of HTTP/2, where it was the authority once more
	if passed := r.Header[cdnloop.Field]; passed != nil {
		changed.Header[cdnloop.Field] = passed
	}
	to := url.URL{Path: own.URL.Path, RawPath: own.URL.RawPath, RawQuery: own.URL.RawQuery, ForceQuery: own.URL.ForceQuery}
	if target := to.RequestURI(); target != r.URL.RequestURI() {
		changed.URL, changed.RequestURI = &to, target
	}
	if status, why := forward.Refusal(http.Header{}, &changed); status != 0 {
		return r, fmt.Errorf("%w: %s", ErrRewrite, why)
	}
	return &changed, nil
}

// Drain stops refreshes in the background and waits for those that run, until ctx
// ends, and then returns its cause. Requests are answered as before: call it when the
// server begins to shut down. It may be called again.
func (g *Gateway) Drain(ctx context.Context) error {
	var err error
	for _, h := range g.now.Load().handlers {
		err = cmp.Or(err, h.http.Drain(ctx))
	}
	if err != nil {
		return fmt.Errorf("gateway: drain: %w", err)
	}
	return nil
}

// Close stops the health checks and closes idle connections. Requests that are
// being answered end as they began, and what comes after gets 503. It waits for
// what runs in the background, until ctx ends, and then returns the cause of
// ctx. It may be called again. Purges that the fleet has not acknowledged by then
// are lost: the error is a *fleet.PendingError.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.closed.CompareAndSwap(false, true) {
		for _, src := range g.now.Load().sources {
			src.pool.Retire()
		}
	}
	g.mu.Unlock()
	err := g.Drain(ctx)
	var lost *fleet.PendingError // by now nothing of the fleet is waited for
	left := g.cache.Close(ctx)
	if !errors.As(left, &lost) {
		err = cmp.Or(err, left)
	}
	if err != nil {
		return fmt.Errorf("gateway: close: %w", err)
	}
	done := make(chan struct{})
	go func() { // ends with the checks, which Retire has stopped
		defer close(done)
		g.background.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		left = cmp.Or(left, context.Cause(ctx))
	}
	if left != nil {
		return fmt.Errorf("gateway: close: %w", left)
	}
	return nil
}

// Cache returns the cache that the routes share.
func (g *Gateway) Cache() *weirhttp.Cache { return g.cache }

// Explain tells which route r takes (its name, empty for none), and what would
// become of it there. It changes nothing.
func (g *Gateway) Explain(r *http.Request) (name string, e weirhttp.Explanation) {
	h := g.now.Load().find(r)
	if h == nil {
		return "", weirhttp.Explanation{
			Method: r.Method,
			Answer: "error",
			Steps:  []string{"No route matches it: it is answered with 404."},
		}
	}
	if h.route.Rewrite != nil {
		own, err := rewritten(r, h.route.Rewrite)
		if err != nil {
			return h.route.Name, weirhttp.Explanation{
				Method: r.Method, Answer: "error", Steps: []string{"Route.Rewrite makes a request of it that cannot be forwarded: it is answered with 500."},
			}
		}
		r = own
	}
	return h.route.Name, h.http.Explain(r)
}
