package weirhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/eventstream"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// A Handler is a shared cache, a coalescer and a limiter in front of another handler.
// Create one with [New], and Close it after its server has shut down. It is safe for
// concurrent use.
type Handler struct {
	next       http.Handler
	o          Options // with defaults
	cache      *Cache
	policy     rfc9111.Policy
	together   rfc9111.Policy // policy for a Cache with a fleet or a folder, see rulesNow
	reads      readRules
	once       *idempotency        // nil if any call may run any number of times
	costs      *costs              // nil: cost is not counted
	name       string              // as in Cache-Status
	route      string              // as in Receipts
	vary       []string            // fields and cookies that the policy adds to Vary
	eventRules eventstream.Rules   // of Options.Events
	keyed      rfc9111.Credentials // the credentials that the policy compares
	rules      uint64              // stands for policy, see rulesOf
	query      *queryRules         // nil if there are none
	// ignores: the policy removes fields or cookies from requests.
	ignores bool

	began      time.Time       // see Handler.now
	open       context.Context // until Close
	close      context.CancelFunc
	flying     sync.WaitGroup  // calls that no request owns
	refreshing sync.WaitGroup  // of these, the refreshes
	refreshes  context.Context // until StopRefreshing, or Close
	rest       context.CancelFunc
	background atomic.Int64  // of flying, the refreshes
	active     activeFlights // guarded by Cache.mu
	count      counters
	alone      alone
	requests   inspect.Histogram
	calls      inspect.Histogram
	waits      inspect.Histogram
	work       work          // how long calls take
	chances    chances       // the same, for deadlines
	hot        *hotURLs      // nil if not configured
	shadow     *shadow       // in observe mode, else nil
	crowds     []*slow.Crowd // the calls that hold permits, for each part of Options.Limiter
	fleet      *fleetClient  // nil if its calls are not shared with other instances
	joined     bool          // this Handler has joined its Cache to the fleet
}

// New returns a Handler in front of next. The error joins an *OptionError for every
// option that is out of bounds, and one for a next that is nil.
func New(next http.Handler, o Options) (*Handler, error) {
	f := option.Faults{Package: "weirhttp", Prefix: "New."}
	call, isFunc := next.(http.HandlerFunc)
	f.Check(next != nil && !(isFunc && call == nil), "next", "nil", "the handler to call")
	if err := errors.Join(f.Err(), o.Validate()); err != nil {
		return nil, err
	}
	return newHandler(next, o, false)
}

// newHandler is New for a shared cache, or for a private one.
func newHandler(next http.Handler, o Options, private bool) (*Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	route := o.Route // without the default, for Receipts
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		next: next, o: o, policy: o.Policy.rules(), cache: o.Cache, name: sfName(o.Name),
		reads:   newReadRules(o.Reads),
		once:    newIdempotency(o.Idempotency),
		costs:   newCosts(o.Cost),
		ignores: len(o.Policy.IgnoreHeaders)+len(o.Policy.IgnoreCookies) > 0, route: route,
		query: o.Query.compile(),
	}
	h.began = time.Now()
	h.crowds = crowdsOf(o.Limiter, o.Clients.BlockedShare)
	h.hot = newHotURLs(h, o.HotKeys)
	h.open, h.close = context.WithCancel(context.Background())
	h.refreshes, h.rest = context.WithCancel(h.open)
	if h.eventRules = o.Events.rules(); o.Events.Share {
		h.policy.Vary = append(slices.Clone(h.policy.Vary), rfc9111.AcceptEvents)
	}
	h.policy.Gateway, h.policy.Identify = o.Gateway, o.Identity
	for _, d := range []DurationField{o.Deadline, o.TellDeadline} {
		if d.Name != "" && !slices.Contains(h.policy.PerCall, d.Name) {
			h.policy.PerCall = append(h.policy.PerCall, d.Name)
		}
	}
	if private {
		h.policy.Private = true
		h.policy.Vary = append(slices.Clone(h.policy.Vary), "Authorization", "Cookie")
	}
	h.vary = slices.Clone(h.policy.Vary)
	for _, name := range o.Policy.VaryCookies {
		h.vary = append(h.vary, "cookie:"+name)
	}
	slices.Sort(h.vary)
	h.vary = slices.Compact(h.vary)
	h.together = h.policy
	h.together.Together = true
	h.keyed, h.rules = h.policy.Apart(), rulesOf(h.policy)
	if o.Observe {
		h.shadow = newShadow()
	}
	if err := o.Cache.claim(private); err != nil {
		return nil, err
	}
	if h.fleet, h.joined, err = o.Cache.join(o.Fleet); err != nil {
		return nil, err
	}
	if len(o.Reads) > 0 {
		o.Cache.readsInFleet.Store(true)
	}
	if o.NoCoalescing {
		h.fleet = nil // without coalescing here, requests do not wait for other instances either
	}
	return h, nil
}

// ServeHTTP responds to r.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	came := h.now()
	if h.admit(w, r, came) {
		h.serve(w, r, came)
	}
}

// Admit reports whether Options.ClientLimiter admits r, and responds to it if not.
// Admit followed by ServeAdmitted is ServeHTTP, for callers that have to do something
// in between or that make a request later than it was admitted. Observe mode admits
// all requests.
func (h *Handler) Admit(w http.ResponseWriter, r *http.Request) bool {
	return h.o.ClientLimiter == nil || h.admit(w, r, h.now())
}

func (h *Handler) admit(w http.ResponseWriter, r *http.Request, came time.Time) bool {
	if h.o.ClientLimiter == nil || h.o.Observe || h.admitClient(w, r) {
		return true
	}
	h.count.requests.Add(1)
	h.requests.Record(time.Since(came))
	return false
}

// ServeAdmitted responds to r without calling Options.ClientLimiter.
func (h *Handler) ServeAdmitted(w http.ResponseWriter, r *http.Request) { h.serve(w, r, h.now()) }

// serve responds to r, which arrived at came.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, came time.Time) {
	turn := h.count.requests.Add(1)
	if h.o.Observe {
		h.observe(w, r, came, turn)
		return
	}
	r, q, why := h.read(r)
	switch {
	case h.once != nil && h.serveOnce(w, r, q, came, turn, why):
	case why == usesCache:
		h.lookUp(w, r, q, h.key(r), came, turn)
	case !h.serveRead(w, r, q, came, turn):
		h.pass(w, r, q, came, turn, why, "")
	}
}

// lookUp responds to r, which can use the cache.
func (h *Handler) lookUp(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, came time.Time, turn uint64) {
	h.hot.asked(key, came, turn)
	s, u := h.find(key, r, q, came)
	if s == nil {
		if s, u = h.findInFolder(key, r, q, came); s != nil && s.Large != nil {
			defer s.Large.Close()
		}
	}
	switch {
	case u.fresh:
		h.hit(w, r, q, key, s, u)
	case u.swr:
		h.staleHit(w, r, q, key, s, u)
	case q.Range && s == nil && h.hitPart(w, r, q, key, came):
	default:
		h.newCall(w, r, q, key, s, u.due).run(came)
		return
	}
	if s == nil || !h.paces(s) {
		h.requests.Record(time.Since(came))
	}
}

// newCall returns a call for r. s is the response that is stored for it and cannot be
// used as it is, or nil.
func (h *Handler) newCall(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, s *responses.Stored, due bool) *call {
	c := &call{h: h, w: w, r: r, q: q, key: key, stale: s, due: due, demand: admit.Of(r.Context(), h.o.Limiter)}
	c.identify()
	if h.o.Priority != nil {
		c.demand.Priority = h.o.Priority(h.sent(r))
	}
	if s == nil {
		_, c.varied = h.cache.store.Vary(key)
		c.denied = c.varied && q.Credentials != 0 && h.cache.store.Find(key, proofOf(r), &q) != nil
	}
	return c
}

// over records how long c has taken since came. If the next handler called
// runtime.Goexit, c has no outcome yet, and over counts it as failed.
func (c *call) over(came time.Time) {
	if !c.counted {
		c.noAnswer(coalesce.ErrGoexit)
		c.became(OutcomeFailed)
	}
	if !c.endless {
		c.h.requests.Record(time.Since(came))
	}
}

// now reads the monotonic clock alone, which takes half the time of time.Now. Its
// wall clock is that of New, advanced by the monotonic clock, so it cannot be
// compared with that of another instance. A Handler in a fleet therefore uses
// time.Now; see due.
func (h *Handler) now() time.Time {
	if h.fleet != nil {
		return time.Now()
	}
	return h.began.Add(time.Since(h.began))
}

// key returns the key under which the response to r is stored.
func (h *Handler) key(r *http.Request) responses.Key {
	return responses.Key{Scheme: h.scheme(r), Host: r.Host, Target: target(r)}
}

func (h *Handler) scheme(r *http.Request) string {
	if h.o.Scheme != nil {
		return h.o.Scheme(r)
	}
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// Close cancels the calls in flight, including refreshes of stored responses, and
// waits for them until ctx ends. After Close, fresh responses are still served (in a fleet only
// until its Cache has left it), and requests that need a call that could be shared get 503. If ctx ends first, Close
// returns its cause. It may be called again.
func (h *Handler) Close(ctx context.Context) error {
	h.cache.mu.Lock()
	h.close() // flights start under this lock: after it, none starts any more
	h.cache.mu.Unlock()
	err := wait.For(ctx, h.flying.Wait)
	if h.joined {
		err = cmp.Or(err, h.cache.Close(ctx))
	}
	return err
}

// Drain cancels the background calls that refresh stored responses, starts no more of
// them, and waits for them until ctx ends. Requests are served as before: call Drain
// when a server begins to shut down, and Close after its last response. If ctx ends
// first, Drain returns its cause. It may be called again.
func (h *Handler) Drain(ctx context.Context) error {
	h.cache.mu.Lock()
	h.rest()
	h.cache.mu.Unlock()
	return wait.For(ctx, h.refreshing.Wait)
}

// admitClient reports whether the client limiter admits r, and responds to r if not
// (H13).
func (h *Handler) admitClient(w http.ResponseWriter, r *http.Request) bool {
	err := h.o.ClientLimiter.Admit(r, w.Header())
	if err == nil {
		return true
	}
	h.count.refused[refusalOf(err, true)].Add(1)
	h.event(Event{Kind: EventRefused, Request: r, Status: answerTo(err, true, false).status, Err: err})
	r, id := h.identify(r, nil)
	h.identified(w, id, false)
	h.report(w, Receipt{Outcome: OutcomeRefused, RequestID: id, Err: err})
	if t, ok := w.(interface{ takeError(error) }); ok { // a Transport returns it
		t.takeError(err)
		return false
	}
	if r.Context().Err() != context.Canceled { //nolint:errorlint // contexts return it as it is
		h.refuse(w, r, answerTo(err, true, false), err)
	}
	return false
}

func (h *Handler) event(e Event) {
	if h.o.Observer == nil {
		return
	}
	ctx := context.Background()
	if e.Request != nil {
		ctx = e.Request.Context()
	}
	e.Route = h.o.Route
	h.tell(func() { h.o.Observer.Event(ctx, e) })
}

// failed counts a call that has brought no response although a client waited for it.
func (h *Handler) failed(r *http.Request, err error) {
	if status := givenUp(err); status != 0 {
		h.answered(status)
		return
	}
	h.count.failed.Add(1)
	h.event(Event{Kind: EventFailed, Request: r, Err: err})
}

// answered counts a call whose response has this status. It is called before any
// client has the response headers.
func (h *Handler) answered(status int) {
	if status >= 500 {
		h.count.serverErrors.Add(1)
	}
}

// broke counts a call whose response, with this status, broke off although a client
// wanted it. A response with an error status was counted before.
func (h *Handler) broke(status int) {
	if status < 500 {
		h.count.broken.Add(1)
	}
}

// delayed counts the time that a call has waited for admission.
func (h *Handler) delayed(d time.Duration) {
	if d >= time.Millisecond { // less is the time through the limiter itself
		h.count.queued.Add(1)
		h.count.waited.Add(int64(d))
	}
}

// outcome returns the Outcome, for a limiter, of a call that ended with this status
// and err.
func outcome(status int, err error) limit.Outcome {
	switch {
	case err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests && status != http.StatusGatewayTimeout:
		return limit.Success
	case err == nil, isTimeout(err):
		return limit.Dropped
	}
	return limit.Ignored
}
