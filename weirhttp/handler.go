package weirhttp

import (
	"cmp"
	"context"
	"hash/maphash"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
)

// A Handler is a shared cache, a coalescer and a limiter before another
// handler. Make one with [New], and Close it when its server has ended. It is
// safe for concurrent use.
type Handler struct {
	next   http.Handler
	o      Options // with defaults
	cache  *Cache
	policy rfc9111.Policy
	name   string   // as Cache-Status has it
	route  string   // as Receipts have it
	vary   []string // what the policy keeps apart
	seed   maphash.Seed
	keyed  rfc9111.Credentials // those that the policy compares
	// ignores: the policy takes something out of requests.
	ignores bool

	began      time.Time       // see now
	open       context.Context // until Close
	close      context.CancelFunc
	flying     sync.WaitGroup  // calls that no request owns
	refreshing sync.WaitGroup  // of these, refreshes
	refreshes  context.Context // until StopRefreshing, or Close
	rest       context.CancelFunc
	background atomic.Int64  // of these, refreshes
	active     activeFlights // guarded by Cache.mu
	count      counters
	requests   inspect.Histogram
	calls      inspect.Histogram
	waits      inspect.Histogram
	hot        *hotURLs      // nil: not asked for
	shadow     *shadow       // of observe mode, else nil
	crowds     []*slow.Crowd // the calls that hold permits of each part of Options.Limiter
	fleet      *fleetClient  // nil: its calls are not shared with other instances
	joined     bool          // it is the Cache's because of this Handler
}

// New returns a Handler before next. The error joins an *OptionError for every
// option that is out of bounds.
func New(next http.Handler, o Options) (*Handler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	route := o.Route // without a default, for Receipts
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{
		next: next, o: o, policy: rfc9111.Policy(o.Policy), cache: o.Cache, name: sfName(o.Name), seed: maphash.MakeSeed(),
		ignores: len(o.Policy.IgnoreHeaders)+len(o.Policy.IgnoreCookies) > 0, route: route,
	}
	h.began = time.Now()
	h.crowds = crowdsOf(o.Limiter, o.Clients.BlockedShare)
	h.hot = newHotURLs(h, o.HotKeys)
	h.open, h.close = context.WithCancel(context.Background())
	h.refreshes, h.rest = context.WithCancel(h.open)
	h.vary = slices.Clone(o.Policy.Vary)
	for _, name := range o.Policy.VaryCookies {
		h.vary = append(h.vary, "cookie:"+name)
	}
	slices.Sort(h.vary)
	h.keyed = h.policy.Apart()
	if o.Observe {
		h.shadow = newShadow()
	}
	if h.fleet, h.joined, err = o.Cache.join(o.Fleet); err != nil {
		return nil, err
	}
	if o.NoCoalescing {
		h.fleet = nil // requests that wait for none here do not wait for other instances
	}
	return h, nil
}

// ServeHTTP answers r.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	came := h.now()
	if h.admit(w, r, came) {
		h.serve(w, r, came)
	}
}

// Admit reports whether Options.ClientLimiter lets r in, and answers it if not. Together
// with ServeAdmitted it is ServeHTTP: for who has to do something in between, or
// makes a request later than it was let in. In observe mode all are let in.
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

// ServeAdmitted answers r without asking Options.ClientLimiter.
func (h *Handler) ServeAdmitted(w http.ResponseWriter, r *http.Request) { h.serve(w, r, h.now()) }

// serve answers r, which came then.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, came time.Time) {
	turn := h.count.requests.Add(1)
	if h.o.Observe {
		h.observe(w, r, came, turn)
		return
	}
	r, q, ok := h.read(r)
	if !ok {
		h.pass(w, r, q, came, turn)
		return
	}
	key := h.key(r)
	h.hot.asked(key, came, turn)
	s, u := h.find(key, r, q, came)
	switch {
	case u.fresh:
		h.hit(w, r, q, key, s, u)
	case u.swr:
		h.staleHit(w, r, q, key, s, u)
	default:
		h.newCall(w, r, q, key, s, u.due).run(came)
		return
	}
	h.requests.Record(time.Since(came))
}

// read returns r as the policy has it, with what its fields say. It reports false if r
// does not concern the cache.
func (h *Handler) read(r *http.Request) (*http.Request, rfc9111.Request, bool) {
	r = endToEnd(r)
	q := h.policy.ReadRequest(r.Header)
	if !concerns(r) || q.Upgrade || q.Streams || q.Expect {
		return r, q, false
	}
	if h.ignores && h.policy.Forward(r.Header, true) {
		r = r.Clone(r.Context())
		h.policy.Forward(r.Header, false)
		q = h.policy.ReadRequest(r.Header)
	}
	return r, q, !q.Override
}

// newCall returns a call for r, for which s is stored but of no use as it is, or nil.
func (h *Handler) newCall(w http.ResponseWriter, r *http.Request, q rfc9111.Request, key responses.Key, s *responses.Stored, due bool) *call {
	c := &call{h: h, w: w, r: r, q: q, key: key, stale: s, due: due, demand: admit.Of(r.Context(), h.o.Limiter)}
	if h.o.Priority != nil {
		c.demand.Priority = h.o.Priority(r)
	}
	if s == nil {
		_, c.varied = h.cache.store.Vary(key)
		c.denied = c.varied && q.Credentials != 0 && h.cache.store.Get(key, r.Header) != nil
	}
	return c
}

// over counts the time that c has taken, which came then, and c itself if nothing
// has become of it: the next handler has called runtime.Goexit.
func (c *call) over(came time.Time) {
	if !c.counted {
		c.noAnswer(coalesce.ErrGoexit)
		c.became(OutcomeFailed)
	}
	if !c.endless {
		c.h.requests.Record(time.Since(came))
	}
}

// concerns reports whether r concerns the cache: a GET or HEAD without a body.
// In a server, a length of 0 says that there is none; over HTTP/2 Body is
// something else than http.NoBody even so.
func concerns(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.ContentLength == 0
}

// now is the time by the monotonic clock alone, to read which takes half of what
// time.Now does. What its wall clock says is that of New, gone on, which is of no
// use where it meets another's: in a fleet, see due, it is the real one.
func (h *Handler) now() time.Time {
	if h.fleet != nil {
		return time.Now()
	}
	return h.began.Add(time.Since(h.began))
}

// key returns what the answer to r is stored under.
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

// Close cancels the calls that are in flight, also those that refresh what is
// stored, and waits for them until ctx ends. After it fresh answers are still
// served, and what wants a call that could be shared gets 503. It returns the
// cause of ctx if that ended first. It may be called again.
func (h *Handler) Close(ctx context.Context) error {
	h.cache.mu.Lock()
	h.close() // who has not started a flight by now, which is done under this lock, does not any more
	h.cache.mu.Unlock()
	err := wait.For(ctx, h.flying.Wait)
	if h.joined {
		err = cmp.Or(err, h.cache.Close(ctx))
	}
	return err
}

// Drain cancels the calls in the background that refresh what is stored, starts no
// more of them, and waits for them until ctx ends. Requests are answered as before:
// call it when a server begins to shut down, and Close when it has answered its last
// request. It returns the cause of ctx if that ended first. It may be called again.
func (h *Handler) Drain(ctx context.Context) error {
	h.cache.mu.Lock()
	h.rest()
	h.cache.mu.Unlock()
	return wait.For(ctx, h.refreshing.Wait)
}

// admitClient reports whether the client limiter admits r, and answers r if not (H13).
func (h *Handler) admitClient(w http.ResponseWriter, r *http.Request) bool {
	err := h.o.ClientLimiter.Admit(r, w.Header())
	if err == nil {
		return true
	}
	h.count.refusedClient.Add(1)
	h.event(Event{Kind: EventRefused, Request: r, Status: answerTo(err, true, false).status, Err: err})
	h.report(w, Receipt{Outcome: OutcomeRefused, Err: err})
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

// failed counts a call that has brought no answer to somebody who waited for it.
func (h *Handler) failed(r *http.Request, err error) {
	h.count.failed.Add(1)
	h.event(Event{Kind: EventFailed, Request: r, Err: err})
}

// answered counts a call whose answer has that status. It is called before
// anybody has the head.
func (h *Handler) answered(status int) {
	if status >= 500 {
		h.count.serverErrors.Add(1)
	}
}

// broke counts a call whose answer, with that status, broke off although somebody
// wanted it. Of an error it is known already that it is one.
func (h *Handler) broke(status int) {
	if status < 500 {
		h.count.broken.Add(1)
	}
}

// delayed counts the time that a call has waited for admission.
func (h *Handler) delayed(d time.Duration) {
	if d >= time.Millisecond { // less is the way through the limiter
		h.count.queued.Add(1)
		h.count.waited.Add(int64(d))
	}
}

// outcome is the Outcome for a limiter of a call that ended with that status, and
// err.
func outcome(status int, err error) limit.Outcome {
	switch {
	case err == nil && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests && status != http.StatusGatewayTimeout:
		return limit.Success
	case err == nil, isTimeout(err):
		return limit.Dropped
	}
	return limit.Ignored
}
