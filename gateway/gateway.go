package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
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

	rejected *atomic.Uint64 // the Gateway's
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
		_ = g.cache.Close(context.Background()) // nothing was asked yet
		return nil, err
	}
	return g, nil
}

// ServeHTTP answers r. After Close it answers 503.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if forward.Reject(w, r) {
		g.rejected.Add(1)
		return
	}
	if g.closed.Load() {
		g.rejected.Add(1)
		weirhttp.Error(w, r, weir.ErrClosed)
		return
	}
	s := g.now.Load()
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
	if rw, ok := w.(interface{ SetRoute(name string) }); ok { // an access log wants to know
		rw.SetRoute(h.route.Name)
	}
	if s.config.Front == nil || h.route.Observe {
		h.ServeHTTP(w, r)
		return
	}
	if !h.http.Admit(w, r) {
		return
	}
	if front := s.config.Front(h.route.Name); front != nil {
		front.ServeHTTP(w, g.accepted(r))
		return
	}
	h.serveAdmitted(w, r)
}

// ServeRoute answers r as the route of that name does, whatever r matches. It is
// for what stands before a route, and for requests that it makes later: neither
// Config.Front nor the route's Rate is asked. It reports false, and has done
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
	g.rejected.Add(1)
	if rw, ok := w.(weirhttp.ReceiptWriter); ok {
		rw.SetReceipt(weirhttp.Receipt{Outcome: weirhttp.OutcomeRefused, Err: ErrLoop})
	}
	const text = "508 Loop Detected: the request has passed this gateway before\n"
	s.refuse(w, r, http.StatusLoopDetected, "proxy_loop_detected", text) // RFC 9209, section 2.3.31
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
	const text = "404 Not Found: no route matches this request\n"
	s.refuse(w, r, http.StatusNotFound, "destination_not_found", text) // RFC 9209, section 2.3.3
}

// refuse answers with an error of ours, which has that name in RFC 9209.
func (s *state) refuse(w http.ResponseWriter, r *http.Request, status int, kind, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Proxy-Status", s.name+"; error="+kind)
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, text) // a client that has gone is the server's to notice
	}
}

// ServeHTTP answers r.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r, ok := h.bounded(w, r); ok {
		h.http.ServeHTTP(w, r)
	}
}

// serveAdmitted is ServeHTTP without the route's Rate.
func (h *handler) serveAdmitted(w http.ResponseWriter, r *http.Request) {
	if r, ok := h.bounded(w, r); ok {
		h.http.ServeAdmitted(w, r)
	}
}

// bounded returns r with a body that ends at Route.MaxBody. A body that says
// that it is too long is refused at once, one that turns out to be while it is
// forwarded.
func (h *handler) bounded(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	if n := h.route.MaxBody; n > 0 && r.ContentLength != 0 {
		if r.ContentLength > n {
			h.rejected.Add(1)
			weirhttp.Error(w, r, &http.MaxBytesError{Limit: n})
			return nil, false
		}
		limited := *r
		limited.Body = http.MaxBytesReader(w, r.Body, n)
		r = &limited
	}
	return r, true
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
	return h.route.Name, h.http.Explain(r)
}
