package weirhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp/cdnloop"
	"github.com/weir-go/weir/weirhttp/stop"
)

// A call is one GET or HEAD request, or a read with a body, that could not be served from the store at once.
type call struct {
	h *Handler
	w http.ResponseWriter
	r *http.Request // without the fields that the policy ignores
	// own is r, if it had no ID. It is not a separate object, because most calls have one.
	own http.Request
	q   rfc9111.Request

	key     responses.Key
	stale   *responses.Stored // stored for it, but not usable as it is; or nil
	varied  bool              // something is stored for its URL, but for other field values
	denied  bool              // something is stored for it, but not for its credentials
	bypass  bypass            // why it bypasses the cache
	due     bool              // the stored response is fresh, but the fleet has to be checked
	demand  admit.Demand
	time    *callerTime // nil if the request states no time
	receipt Receipt
	id      string // of the request, empty without Options.RequestID
	counted bool   // its outcome is counted
	fleet   bool   // it is served by a response that another instance fetched
	// rounds is how often it has waited for a response that it may not use.
	rounds  int
	yields  int           // rounds that do not count, see yield
	late    bool          // it joined after the headers arrived
	age     time.Duration // age of the response at that time
	endless bool          // its response has no end
	// tries is the stored response for which c has a turn to call a failing origin.
	tries *responses.Stored
	turn  *responses.Failing
	// partial: its response was combined from stored parts and a part from the origin.
	partial bool
	noted   bool // the end of the call is already remembered with the stored response
	// onward is the request with the body that was read ahead, or nil.
	onward *http.Request
	// rest: it has the headers and a part of a body that it shared, and needs this.
	rest *rest
}

// maxRounds is how often a request waits for another's call before it makes its own:
// once for a response that cannot be shared, and once more if the responses turn out
// to vary by a field.
const maxRounds = 2

// run responds to c.
func (c *call) run(came time.Time) {
	defer c.over(came)
	c.hurry(came)
	defer c.time.end()
	if c.q.OnlyIfCached {
		c.answer(errNotStored)
		return
	}
	if c.cooled() {
		return
	}
	defer c.giveBack()
	if c.time.over() {
		c.outOfTime(ErrOutOfTime)
		return
	}
	for c.rounds = 0; ; c.rounds++ {
		if c.alone() || !c.shared() || c.rest != nil {
			c.solo()
			return
		}
		if c.receipt.Outcome != outcomeNone {
			return
		}
		if c.look() {
			return
		}
	}
}

// look checks the store again, and reports whether it has responded to c.
func (c *call) look() bool {
	h := c.h
	s, use := h.find(c.key, c.r, c.q, time.Now())
	c.stale, c.due = s, use.due
	switch {
	case use.fresh:
		c.counted, c.endless = true, h.paces(s) // by hit
		h.hit(c.w, c.r, c.q, c.key, s, use)
		return true
	case use.swr:
		c.counted, c.endless = true, h.paces(s) // by staleHit
		h.staleHit(c.w, c.r, c.q, c.key, s, use)
		return true
	}
	return false
}

// alone reports whether c neither joins nor leads a flight.
func (c *call) alone() bool {
	h := c.h
	if h.o.NoCoalescing || c.rounds >= maxRounds {
		return true
	}
	hint, now := h.cache.hints.of(c.key), time.Now()
	if now.Before(hint.soloUntil) || hint.large(c.q.Credentials, now) {
		return true
	}
	admits := hint.admits | h.keyed
	if c.stale != nil {
		admits |= c.stale.Admits
	}
	if now.Before(hint.deniesUntil) {
		admits &^= hint.denies
	}
	return c.q.Credentials&^admits != 0
}

// leads reports whether c may start a flight, for which its conditions and its range are
// removed.
func (c *call) leads() bool {
	if (c.q.Conditional || c.q.Range) && !c.mayChange(conditions...) {
		return false
	}
	return c.gets() && !c.q.NoStore && (!c.q.Conditional && !c.q.Range || c.due || c.validates())
}

// gets reports whether c asks for a whole response, with its body.
func (c *call) gets() bool { return c.r.Method != http.MethodHead }

// validates reports whether a call for c revalidates the stored response. It does so
// if that has a validator.
func (c *call) validates() bool {
	return c.stale != nil && !c.q.NoStore && c.gets() && validatable(c.stale) && c.mayChange(conditions...)
}

// conditions are the fields that weir changes on a forwarded request.
var conditions = []string{"Range", "If-Range", "If-None-Match", "If-Modified-Since", "If-Match", "If-Unmodified-Since"}

// mayChange reports whether no signature of c's request may cover these fields.
func (c *call) mayChange(names ...string) bool { return c.q.MayChange(c.r.URL.RawQuery, names...) }

// validatable reports whether s has a validator.
func validatable(s *responses.Stored) bool {
	return s.Header.Get("Etag") != "" || s.Header.Get("Last-Modified") != ""
}

// stores reports whether the response to a call for c may be stored.
func (c *call) stores() bool { return !c.h.o.NoStore && !c.q.NoStore && c.gets() && c.rest == nil }

// group returns the group of requests that c waits with.
func (c *call) group() group {
	g := group{handler: c.h, reload: c.q.NoCache, hops: cdnloop.Hops(c.r.Header), selected: c.h.selects(c.key, &c.q)}
	if c.q.Read {
		g.proof = proofOf(c.r)
	}
	return g
}

// selects returns the values of q for the fields by which the responses of key are known
// to vary.
func (h *Handler) selects(key responses.Key, q *rfc9111.Request) string {
	names := h.cache.hints.of(key).vary
	if names == nil {
		names = h.vary
	}
	return rfc9111.Selecting(names, q)
}

// shared joins the flight of c, or starts it, and waits for it. It reports false if c
// must make its own call. If c has no outcome afterwards, it may not use the response
// that it has waited for.
func (c *call) shared() bool {
	h := c.h
	w := &joiner{q: c.q}
	g, hopeless := c.group(), h.hopeless(c.demand.Until)
	var due invoice
	if c.leads() {
		due = h.invoice(c.r)
		w.payer = due.from.key
	}
	h.cache.mu.Lock()
	f := h.cache.findLocked(c.key, g)
	if f == nil {
		// The head of a call may have arrived since: it has changed the hint, and with it the
		// group of its flight.
		g = c.group()
		f = h.cache.findLocked(c.key, g)
	}
	if f != nil && f.final() && c.q.NoCache {
		h.cache.unlistLocked(f) // its response is older than c; those that come now share a later call
		f = nil
	}
	if f != nil && f.refresh && c.stored() {
		h.cache.mu.Unlock()
		return true // since c looked, the fleet had a stale response: f is the refresh behind it
	}
	if f == nil {
		if !c.leads() {
			h.cache.mu.Unlock()
			return false
		}
		if c.stored() {
			h.cache.mu.Unlock()
			return true // a flight has ended since: look again
		}
		if h.open.Err() != nil {
			h.cache.mu.Unlock()
			c.fail(ErrClosed)
			return true
		}
		if hopeless { // a call that another has started may end in time
			h.cache.mu.Unlock()
			c.fail(errNoChance)
			return true
		}
		var paid *bill
		if !due.waits() {
			var err error
			if paid, err = due.pay(c.r.Context()); err != nil {
				h.cache.mu.Unlock()
				c.fail(err)
				return true
			}
		}
		f = h.newFlightLocked(c, g)
		f.ticket.bill, f.ticket.due = paid, due
		w.leader, w.told = true, make(chan struct{}, 1)
	}
	err := f.joinLocked(w, c.demand)
	final := f.final()
	h.cache.mu.Unlock()
	if w.leader {
		f.start(c.r)
	}
	if err != nil {
		c.fail(err)
		return true
	}
	defer lend.Wait(c.r.Context(), &f.nested).End()
	if final {
		w = nil
	}
	c.follow(f, w)
	return true
}

// stored reports whether a response for c has been stored since it looked.
func (c *call) stored() bool {
	if c.q.NoCache || c.q.NoStore || c.h.o.NoStore {
		return false
	}
	s, use := c.h.find(c.key, c.r, c.q, time.Now())
	return s != nil && (use.fresh || use.swr)
}

// newFlightLocked returns the flight that c leads; start must be called for it.
// Cache.mu must be held, and Close must not have been called.
func (h *Handler) newFlightLocked(c *call, g group) *flight {
	f := &flight{
		key: cloned(c.key), group: g, q: c.q, ticket: ticket{h: h},
		headed: make(chan struct{}), done: make(chan struct{}),
		write: h.cache.store.Begin(c.key), born: time.Now(),
	}
	f.q.Conditional, f.q.Range = false, false // neither is forwarded, see start
	f.known = c.stale
	if c.validates() {
		f.stale = c.stale
	}
	f.lookup = h.newFleetLookup(f, c)
	if f.lookup == nil {
		f.reachLocked(phasePaying)
	}
	h.cache.listLocked(f)
	h.active.addLocked(f)
	h.flying.Add(1)
	return f
}

// start makes the call. It forwards a copy of r, because the client may leave while
// the call is running. Conditions and ranges are evaluated for each client, and are
// not forwarded.
func (f *flight) start(r *http.Request) {
	ctx, cancel := context.WithCancelCause(lend.Context(f.group.handler.withTenant(context.WithoutCancel(r.Context()), r), &f.nested))
	f.req = r.Clone(ctx)
	if held := heldBy(r); held != nil {
		f.held = held.retain()
	} else {
		f.req.Body = http.NoBody // the client's body ends with its request
	}
	for name := range f.req.Header {
		if name == "Range" || strings.HasPrefix(name, "If-") || name == "Referer" && f.group.handler.dropsReferer() {
			delete(f.req.Header, name)
		}
	}
	f.q.Fields = f.req.Header
	f.q.From(f.req)
	if f.refresh {
		f.ownDirectives()
	}
	f.cancel = cancel
	h, until := f.group.handler, f.group.handler.open
	if f.refresh {
		until = h.refreshes
	}
	withdraw := context.AfterFunc(until, func() { cancel(ErrClosed) })
	go func() {
		defer h.flying.Done()
		defer withdraw()
		f.fly(ctx)
	}()
}

// dropsReferer reports whether calls that are stored for others have no Referer: the
// route states a lifetime or a stale window, and pages print the field ("back"), so one
// request could set it for all.
func (h *Handler) dropsReferer() bool {
	p := &h.policy
	return max(p.TTL, p.StaleWhileRevalidate, p.StaleIfError, p.StaleOffline) > 0 && !slices.Contains(p.Vary, "Referer")
}

// ownDirectives removes from the request of a refresh what one client says about stored
// responses: a cache upstream would answer only-if-cached with an error, and max-stale
// with a stale response. A field by which the response is selected stays.
func (f *flight) ownDirectives() {
	for _, k := range [...]string{"Cache-Control", "Pragma"} {
		if f.known == nil || !slices.Contains(f.known.Vary, k) {
			delete(f.req.Header, k)
		}
	}
}

// withTenant returns ctx with the tenant of r.
func (h *Handler) withTenant(ctx context.Context, r *http.Request) context.Context {
	if h.o.Tenant == nil {
		return ctx
	}
	return limit.ContextWithTenant(ctx, h.o.Tenant(h.sent(r)))
}

// context returns ctx with the priority of c.
func (c *call) context(ctx context.Context) context.Context {
	if c.demand.Priority != limit.PriorityOf(ctx) {
		return limit.ContextWithPriority(ctx, c.demand.Priority)
	}
	return ctx
}

// admit lets c alone pay for r, and waits for a permit of l. The work under the permit
// must use the returned context. If c is made from within another call, that call can
// lend its permit to c until t is closed.
func (c *call) admit(ctx context.Context, t *ticket, r *http.Request, l limit.Limiter) (context.Context, error) {
	t.due = c.h.invoice(r)
	if err := t.pay(ctx); err != nil {
		return ctx, err
	}
	inner := ctx
	err := t.acquire(c.context(ctx), r, func(context.Context) (limit.Permit, error) {
		held := new(struct {
			nested lend.Call
			at     limit.Place
		})
		t.nested = lend.Wait(ctx, &held.nested)
		k, value := lend.Value(&held.nested)
		inner = stop.WithValue(ctx, k, value)
		permit, err := c.acquire(limit.ContextWithPlace(inner, &held.at), l)
		if err == nil {
			held.at.Hold(permit)
		}
		return permit, err
	})
	return inner, err
}

// acquire waits for a permit of l, and notes for how long.
func (c *call) acquire(ctx context.Context, l limit.Limiter) (limit.Permit, error) {
	began := time.Now()
	ctx, cancel := c.h.within(ctx)
	defer cancel()
	permit, err := l.Acquire(c.h.withTenant(c.context(ctx), c.r))
	if err == nil {
		c.receipt.Queued = time.Since(began)
		c.h.delayed(c.receipt.Queued)
	}
	return permit, err
}

// mayServeStale reports whether the stored response may be served stale now that the
// origin is failing or we are overloaded (H11).
func (c *call) mayServeStale() bool {
	return c.stale != nil && c.standing().IfError
}

func (c *call) standing() rfc9111.Standing { return c.stale.At(time.Now(), c.q) }

// statusLeft is for the logs: the client has left. One that has only closed its sending
// side gets halfClosed with it (decision 0097).
const (
	statusLeft = 499
	halfClosed = "The client closed its side of the connection before the response was there, which counts as leaving.\n"
)

// gone ends c when its context ended before there was a response. Without a status,
// net/http would send an empty 200, and a client that is still there would believe
// it: the deadline may be that of a handler in front of us.
func (c *call) gone() {
	ctx := c.r.Context()
	err := wait.Cause(ctx)
	if errors.Is(err, ErrOutOfTime) {
		c.outOfTime(err)
		return
	}
	c.counts(&c.h.count.left)
	if ctx.Err() == context.DeadlineExceeded { //nolint:errorlint // contexts return it as it is
		if !isTimeout(err) {
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		c.answer(err)
		return
	}
	c.receipt.Err = err
	c.report(OutcomeFailed)
	if t, ok := c.w.(interface{ takeError(error) }); ok {
		t.takeError(err)
		return
	}
	c.w.Header().Set("Cache-Control", "no-store")
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.WriteHeader(statusLeft)
	_, _ = io.WriteString(c.w, halfClosed) // it has probably left entirely
}

// fail ends c without a response from the origin: with the stored response, if the
// failure and the stale windows allow that, or with the error.
func (c *call) fail(err error) {
	h := c.h
	if c.rest != nil {
		c.fellBehind(err)
	}
	if errors.Is(err, errNoChance) {
		c.h.count.deadlineNoChance.Add(1)
	}
	if c.r.Context().Err() != nil && !readable(err) {
		c.gone()
		return
	}
	refused, client := errors.Is(err, limit.ErrLimited), ofClient(err)
	if c.stale != nil {
		st := c.standing()
		if st.IfError || st.Offline && unreachable(err) {
			if refused && !client {
				h.count.shed.Add(1)
			}
			c.serveStale(err)
			return
		}
	}
	if c.fallsBack(err) {
		return
	}
	if refused {
		c.refused(err, client)
	}
	c.answer(err)
}

// refused counts c, which a limit has rejected.
func (c *call) refused(err error, client bool) {
	n := &c.h.count
	cost, event := &n.costRefused, Event{Kind: EventRefused, Request: c.r, Err: err}
	if client {
		cost, event.Status = &n.costRefusedClient, answerTo(err, true, false).status
	}
	var over *overBudget
	if errors.As(err, &over) {
		cost.Add(uint64(over.units)) //nolint:gosec // never negative
	}
	c.counts(&n.refused[refusalOf(err, client)])
	c.h.event(event)
}
