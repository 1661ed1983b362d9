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
	"github.com/weir-go/weir/gateway/internal/upstream/hedge"
	"github.com/weir-go/weir/once"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

var _ http.Handler = (*Gateway)(nil)

// A Gateway is a handler over upstreams. Make one with [New], and Close it. It
// is safe for concurrent use.
type Gateway struct {
	cache      *weirhttp.Cache
	claims     *once.Claims   // nil: no route has Idempotency
	loopID     string         // its name in CDN-Loop; the same for all Updates
	background sync.WaitGroup // the health checks of all pools

	// now is the current state. A request reads it once, without a lock, and uses it to its
	// end.
	now                atomic.Pointer[state]
	closed             atomic.Bool
	unrouted, rejected atomic.Uint64

	mu sync.Mutex // of Update and Close; above the pools' mutexes
}

// A state is a Gateway's configuration between two Updates. It is immutable.
type state struct {
	config   Config
	name     string
	index    *route.Index
	handlers []*handler // by the route's position in config and index
	sources  map[string]*source
	reading  []string // see Config.reading
}

// A handler answers the requests of one route.
type handler struct {
	route  Route
	source *source
	path   forward.Path
	http   *weirhttp.Handler
	trust  trust

	underscores bool // Config.KeepUnderscores

	// Kept when the route changes; nil without Concurrency, or without a Rate.
	calls   *valve
	budget  *purse                 // never nil
	cost    weirhttp.Cost          // of the route, or else of the upstream
	obeys   bool                   // what the upstream states
	tells   weirhttp.DurationField // in which the upstream receives the time
	clients *weirhttp.ClientLimiter
	hedges  *hedge.State // nil without Hedge

	standby *standby // nil without a Fallback

	clientBudget *weirhttp.ClientBudget // as clients; nil without a ClientBudget

	rejected *atomic.Uint64        // the Gateway's
	errors   weirhttp.ErrorHandler // the Gateway's
}

// A source is the part of an upstream that is kept when its configuration changes.
type source struct {
	name           string // of the upstream
	pool           *upstream.Pool
	calls, streams valve
	budget         purse
	stated         *weirhttp.StatedLimits
	shared         *weirhttp.SharedLimiter // calls, with the bound on slow clients for all routes
}

// New returns a Gateway. Its error joins an [*OptionError] for every fault of c.
func New(c Config) (*Gateway, error) {
	g := &Gateway{cache: c.Cache, claims: c.Claims, loopID: cdnloop.NewID()}
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
	r = h.received(r)
	weirhttp.SetReceipt(w, weirhttp.Receipt{Route: h.route.Name}) // also for requests that get no other name
	if !h.maps(r) {
		g.refuseAs(w, r, s, weirhttp.Receipt{Route: h.route.Name}, weirhttp.ErrorResponse{Status: http.StatusBadRequest, Text: forward.UnmappedText, Err: ErrRejected})
		return
	}
	if s.config.Front == nil && h.route.Rewrite == nil && h.route.MaxBody == 0 {
		h.http.ServeHTTP(w, r)
		return
	}
	if !h.http.Admit(w, r) {
		return
	}
	if s.config.Front != nil && !h.route.Observe {
		if front := s.config.Front(h.route.Name); front != nil {
			front.ServeHTTP(w, g.accepted(h.asForwarded(r)))
			return
		}
	}
	h.serveAdmitted(w, r)
}

// ServeRoute answers r as the route of that name does, whatever r matches. Handlers in
// front of a route use it, also for requests that they make later: it skips Config.Front
// and the route's Rate. It does nothing and returns false if there is no such route, and
// after Close.
func (g *Gateway) ServeRoute(w http.ResponseWriter, r *http.Request, name string) bool {
	s := g.now.Load()
	i := slices.IndexFunc(s.handlers, func(h *handler) bool { return h.route.Name == name })
	if i < 0 || g.closed.Load() {
		return false
	}
	if cdnloop.Calls(r.Header, g.loopID) >= s.passes() {
		g.loop(w, r, s) // a job that another gateway accepted
		return true
	}
	h := s.handlers[i]
	h.serveAdmitted(w, h.received(r))
	return true
}

// passes returns how often a request may pass.
func (s *state) passes() int { return max(s.config.MaxPasses, 1) }

// loop answers a request that has passed before (H25). No gateway on the way back may store
// or share the response.
func (g *Gateway) loop(w http.ResponseWriter, r *http.Request, s *state) {
	g.refuseAs(w, r, s, weirhttp.Receipt{Outcome: weirhttp.OutcomeRefused, Err: ErrLoop}, weirhttp.ErrorResponse{
		Status: http.StatusLoopDetected, Text: "the request has passed this gateway before", Err: ErrLoop,
		ProxyStatus: s.name + "; error=proxy_loop_detected", // RFC 9209, section 2.3.31
	})
}

// writeError is the ErrorHandler of all routes: it calls that of the current Config.
func (g *Gateway) writeError(w http.ResponseWriter, r *http.Request, e weirhttp.ErrorResponse) {
	e.WriteWith(g.now.Load().config.ErrorHandler, w, r)
}

// refuse answers a request that is not routed.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, s *state, e weirhttp.ErrorResponse) {
	g.refuseAs(w, r, s, weirhttp.Receipt{}, e)
}

// refuseAs is refuse with that Receipt.
func (g *Gateway) refuseAs(w http.ResponseWriter, r *http.Request, s *state, rec weirhttp.Receipt, e weirhttp.ErrorResponse) {
	g.rejected.Add(1)
	e.WriteWith(s.config.ErrorHandler, w, identified(w, r, rec))
}

// identified returns r with a request ID, which it also sets in the response and in rec, for
// a response that no route's Handler writes.
func identified(w http.ResponseWriter, r *http.Request, rec weirhttp.Receipt) *http.Request {
	id, made := weirhttp.RequestID(r.Header, forward.RequestID)
	w.Header()[forward.RequestID] = []string{id}
	rec.RequestID = id
	weirhttp.SetReceipt(w, rec)
	if !made {
		return r
	}
	own := *r
	if own.Header = maps.Clone(r.Header); own.Header == nil {
		own.Header = http.Header{}
	}
	own.Header[forward.RequestID] = []string{id}
	return &own
}

// accepted returns r with our name in CDN-Loop, for handlers that make requests later:
// another process may forward them.
func (g *Gateway) accepted(r *http.Request) *http.Request {
	marked := *r
	marked.Header = maps.Clone(r.Header)
	marked.Header[cdnloop.Field] = cdnloop.Accept(r.Header, g.loopID)
	return &marked
}

// find returns the handler for r, or nil.
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
	}.WriteWith(s.config.ErrorHandler, w, identified(w, r, weirhttp.Receipt{}))
}

// received returns r without the fields that say for whom it is and that the servers do
// not get, most of all those of untrusted peers. They would select a stored response, or
// be stored with one, although the servers did not see them.
func (h *handler) received(r *http.Request) *http.Request {
	return forward.DropForwarded(r, h.trust.peer, !h.underscores)
}

// asForwarded returns r with the query that the route's rules leave, for a handler that
// compares requests. Route.Rewrite, which comes before the rules, must see all of it.
func (h *handler) asForwarded(r *http.Request) *http.Request {
	if h.route.Rewrite != nil {
		return r
	}
	return h.http.Apply(r)
}

// serveAdmitted answers r, which the route's Rate has admitted.
func (h *handler) serveAdmitted(w http.ResponseWriter, r *http.Request) {
	r, err := h.prepared(w, r)
	if err != nil {
		h.rejected.Add(1)
		h.errors(w, identified(w, r, weirhttp.Receipt{Route: h.route.Name}), weirhttp.ErrorResponseTo(err))
		return
	}
	h.http.ServeAdmitted(w, r)
}

// prepared returns r as changed by Route.Rewrite, with a body that ends at Route.MaxBody. A
// body declared too long is rejected at once; a body of unknown length is cut off while it
// is forwarded.
func (h *handler) prepared(w http.ResponseWriter, r *http.Request) (*http.Request, error) {
	if h.route.Rewrite != nil {
		own, err := rewritten(r, h.route.Rewrite)
		if err != nil {
			return r, err
		}
		r = h.received(own)
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
// rest is kept, including the gateways that r has passed.
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
	delete(changed.Header, "Host") // of HTTP/2, where it repeated the authority
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

// Drain starts no more background refreshes and waits for the running ones. If ctx ends
// first, it returns the cause of ctx. Requests are answered as before: call Drain when the
// server begins to shut down. It may be called again.
func (g *Gateway) Drain(ctx context.Context) error {
	var err error
	for _, h := range g.now.Load().handlers {
		err = cmp.Or(err, h.http.Drain(ctx))
		if h.standby != nil {
			err = cmp.Or(err, h.standby.http.Drain(ctx))
		}
	}
	if err != nil {
		return fmt.Errorf("gateway: drain: %w", err)
	}
	return nil
}

// Close stops the health checks and closes idle connections. Requests in flight are
// completed, later ones get 503. Close waits for background work; if ctx ends first, it
// returns the cause of ctx. It may be called again. Purges that the fleet has not
// acknowledged by then are lost: the error is a *fleet.PendingError.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	if g.closed.CompareAndSwap(false, true) {
		for _, src := range g.now.Load().sources {
			src.pool.Retire()
		}
	}
	g.mu.Unlock()
	err := g.Drain(ctx)
	for _, p := range g.now.Load().purses() {
		err = cmp.Or(err, p.close(ctx))
	}
	for _, h := range g.now.Load().handlers {
		if h.clientBudget != nil {
			err = cmp.Or(err, h.clientBudget.Close(ctx))
		}
	}
	var lost *fleet.PendingError // nothing waits for the fleet any more
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
		left = cmp.Or(left, context.Cause(ctx), context.Canceled)
	}
	if left != nil {
		return fmt.Errorf("gateway: close: %w", left)
	}
	return nil
}

// purses returns the budgets of s.
func (s *state) purses() (all []*purse) {
	for _, h := range s.handlers {
		all = append(all, h.budget)
	}
	for _, src := range s.sources {
		all = append(all, &src.budget)
	}
	return all
}

// Cache returns the cache shared by the routes.
func (g *Gateway) Cache() *weirhttp.Cache { return g.cache }

// Explain returns the name of the route that r matches, empty for none, and how that route
// would answer it. It changes nothing.
func (g *Gateway) Explain(r *http.Request) (name string, e weirhttp.Explanation) {
	h := g.now.Load().find(r)
	if h == nil {
		return "", weirhttp.Explanation{
			Method: r.Method,
			Answer: "error",
			Steps:  []string{"No route matches it: the response is 404."},
		}
	}
	if !h.maps(r) {
		return h.route.Name, weirhttp.Explanation{
			Method: r.Method, Answer: "error", Steps: []string{"Its path cannot be mapped to one of the upstream, because it has a segment .. or does not begin with the prefix that the route strips: the response is 400."},
		}
	}
	r = h.received(r)
	if h.route.Rewrite != nil {
		own, err := rewritten(r, h.route.Rewrite)
		if err != nil {
			return h.route.Name, weirhttp.Explanation{
				Method: r.Method, Answer: "error", Steps: []string{"Route.Rewrite turns it into a request that cannot be forwarded: the response is 500."},
			}
		}
		r = h.received(own)
	}
	e = h.http.Explain(r)
	h.explainHedge(&e, r)
	h.explainFallback(&e)
	return h.route.Name, e
}
