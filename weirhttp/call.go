package weirhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// A call is one request, GET or HEAD, that the store has not answered at once.
type call struct {
	h *Handler
	w http.ResponseWriter
	r *http.Request // without what the policy ignores
	q rfc9111.Request

	key     responses.Key
	stale   *responses.Stored // what is stored for it, and must not be used as it is; or nil
	varied  bool              // something is stored for it, but for other fields
	denied  bool              // something is, but it is not for its credentials
	due     bool              // what is stored is fresh, and has to be checked
	demand  admit.Demand
	receipt Receipt
	counted bool // what has become of it
	fleet   bool // by what another instance has fetched
	// rounds is how often it has waited for an answer that it may not have.
	rounds  int
	late    bool          // it has joined after the head
	age     time.Duration // of the answer then
	endless bool          // its answer goes on without an end
	// tries is the response for which c has a turn to call a failing origin.
	tries *responses.Stored
	turn  *responses.Failing
	noted bool // how the call ended is remembered already, for what is stored for c
}

// maxRounds is how often a request waits for another's call before it makes its
// own: once for what nobody may share, and once more where it turned out that
// the answers differ by a field.
const maxRounds = 2

// run answers c.
func (c *call) run(came time.Time) {
	defer c.over(came)
	if c.q.OnlyIfCached {
		c.answer(errNotStored)
		return
	}
	if c.cooled() {
		return
	}
	defer c.giveBack()
	for c.rounds = 0; ; c.rounds++ {
		if c.alone() || !c.shared() {
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

// look looks at the store, and reports whether it had the answer.
func (c *call) look() bool {
	s, use := c.h.find(c.key, c.r, c.q, time.Now())
	c.stale, c.due = s, use.due
	switch {
	case use.fresh:
		c.counted = true // by hit
		c.h.hit(c.w, c.r, c.q, c.key, s, use)
		return true
	case use.swr:
		c.counted = true // by staleHit
		c.h.staleHit(c.w, c.r, c.q, c.key, s, use)
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
	hint := h.cache.hints.of(c.key)
	if time.Now().Before(hint.soloUntil) {
		return true
	}
	admits := hint.admits | h.keyed
	if c.stale != nil {
		admits |= c.stale.Admits
	}
	if time.Now().Before(hint.deniesUntil) {
		admits &^= hint.denies
	}
	return c.q.Credentials&^admits != 0
}

// leads reports whether c may start a flight.
func (c *call) leads() bool {
	return c.r.Method == http.MethodGet && !c.q.NoStore && (!c.q.Conditional && !c.q.Range || c.due || c.validates())
}

// validates reports whether a call for c asks whether what is stored holds. It
// does so for what has a validator.
func (c *call) validates() bool {
	return c.stale != nil && !c.q.NoStore && c.r.Method == http.MethodGet && validatable(c.stale)
}

// validatable reports whether s has a validator.
func validatable(s *responses.Stored) bool {
	return s.Header.Get("Etag") != "" || s.Header.Get("Last-Modified") != ""
}

// stores reports whether the answer to a call for c may be stored.
func (c *call) stores() bool { return !c.h.o.NoStore && !c.q.NoStore && c.r.Method == http.MethodGet }

// group returns with whom c waits.
func (c *call) group() group {
	h := c.h
	hint := h.cache.hints.of(c.key)
	g := group{handler: h, reload: c.q.NoCache, hops: cdnloop.Hops(c.r.Header)}
	names := hint.vary
	if names == nil {
		names = h.vary
	}
	g.selected = rfc9111.Selecting(names, c.r.Header)
	if time.Now().Before(hint.alikeUntil) {
		g.alike = h.digest(c.r.Header)
	}
	return g
}

// shared joins the flight of c, or starts it, and waits for it. It reports
// false if c must make a call of its own. If c was not answered, it may not
// have the answer that it has waited for.
func (c *call) shared() bool {
	h := c.h
	w := &joiner{header: c.r.Header, q: c.q}
	g := c.group()
	h.cache.mu.Lock()
	f := h.cache.findLocked(c.key, g)
	if f != nil && f.pinned && c.stored() {
		h.cache.mu.Unlock()
		return true // the fleet had it, stale, since c looked: f is the refresh behind it
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
		f = h.newFlightLocked(c, g)
		w.leader, w.info = true, make(chan early, 8)
	}
	err := f.joinLocked(w, c.demand)
	turned := f.turned
	h.cache.mu.Unlock()
	if w.leader {
		f.start(c.r)
	}
	if err != nil {
		c.fail(err)
		return true
	}
	defer lend.Wait(c.r.Context(), &f.nested).End()
	if turned {
		w = nil
	}
	c.follow(f, w)
	return true
}

// stored reports whether the store has had an answer for c since it looked.
func (c *call) stored() bool {
	if c.q.NoCache || c.q.NoStore || c.h.o.NoStore {
		return false
	}
	s, use := c.h.find(c.key, c.r, c.q, time.Now())
	return s != nil && (use.fresh || use.swr)
}

// newFlightLocked returns the flight that c leads, and that start must be called
// for. Cache.mu must be held, and Close not have been called.
func (h *Handler) newFlightLocked(c *call, g group) *flight {
	f := &flight{
		key: cloned(c.key), group: g, q: c.q,
		headed: make(chan struct{}), done: make(chan struct{}),
		write: h.cache.store.Begin(c.key), born: time.Now(),
	}
	f.known = c.stale
	if c.validates() {
		f.stale = c.stale
	}
	f.lookup = h.newFleetLookup(f, c)
	f.asking = f.lookup != nil
	h.cache.listLocked(f)
	h.active.addLocked(f)
	h.flying.Add(1)
	return f
}

// start makes the call. r is what is forwarded, as a copy: the client may leave
// while the call goes on. Its conditions and ranges are each client's own
// affair, and not the call's.
func (f *flight) start(r *http.Request) {
	ctx, cancel := context.WithCancelCause(lend.Context(context.WithoutCancel(r.Context()), &f.nested))
	f.req = r.Clone(ctx)
	f.req.Body = http.NoBody // the client's ends with its request
	for _, k := range clientConditions {
		delete(f.req.Header, k)
	}
	f.cancel = cancel
	h, until := f.group.handler, f.group.handler.open
	if f.pinned {
		until = h.refreshes
	}
	stop := context.AfterFunc(until, func() { cancel(ErrClosed) })
	go func() {
		defer h.flying.Done()
		defer stop()
		f.fly(ctx)
	}()
}

// clientConditions are what a flight does not forward.
var clientConditions = []string{
	"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range",
}

// admit waits for a permit for c alone. What runs under it is given the context
// that is returned. If c is made from within another call, that can lend its
// permit to c until leave is called.
func (c *call) admit(ctx context.Context, l limit.Limiter) (inner context.Context, permit limit.Permit, leave func(), err error) {
	nested, at := new(lend.Call), new(limit.Place)
	leave = lend.Wait(ctx, nested).End
	inner = lend.Context(ctx, nested)
	permit, err = c.acquire(limit.ContextWithPlace(inner, at), l)
	if err == nil {
		at.Hold(permit)
	}
	return inner, permit, leave, err
}

// acquire is admit for what nothing is nested in.
func (c *call) acquire(ctx context.Context, l limit.Limiter) (limit.Permit, error) {
	if c.demand.Priority != limit.PriorityOf(ctx) {
		ctx = limit.ContextWithPriority(ctx, c.demand.Priority)
	}
	began := time.Now()
	permit, err := l.Acquire(ctx)
	if err == nil {
		c.receipt.Queued = time.Since(began)
		c.h.delayed(c.receipt.Queued)
	}
	return permit, err
}

// mayServeStale reports whether what is stored may be served though it is
// stale, now that the origin fails or we are overloaded (H11).
func (c *call) mayServeStale() bool {
	return c.stale != nil && c.standing().IfError
}

func (c *call) standing() rfc9111.Standing { return c.stale.At(time.Now(), c.q) }

// statusLeft is for the logs: the client has left.
const statusLeft = 499

// gone ends c after its context has, before there was an answer. Without a
// status net/http would make it an empty 200, which a client that is still there
// would believe: a deadline may be that of a handler before us.
func (c *call) gone() {
	ctx := c.r.Context()
	err := context.Cause(ctx)
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
	c.w.WriteHeader(statusLeft)
}

// fail ends c without an answer of its own: with what is stored, if the
// failure and its windows allow it, or with the error.
func (c *call) fail(err error) {
	h := c.h
	if c.r.Context().Err() != nil && !readable(err) {
		c.gone()
		return
	}
	refused := errors.Is(err, limit.ErrLimited)
	if c.stale != nil {
		st := c.standing()
		if st.IfError || st.Offline && unreachable(err) {
			if refused {
				h.count.shed.Add(1)
			}
			c.serveStale(err)
			return
		}
	}
	if refused {
		c.counts(&h.count.refused)
		h.event(Event{Kind: EventRefused, Request: c.r, Err: err})
	}
	c.answer(err)
}
