package weirhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir/limit"
)

// A Fallback gets the requests for which there is no response: their call has failed, or was
// rejected, nothing was sent to the client, and no stale response may be served (H40). It is
// not called for background refreshes.
type Fallback struct {
	// Serve responds to r, the request as the Handler forwards it, or returns false, and the
	// client gets the error. err is the error of the call. Its waiters fail with the same err, and
	// Serve is called for each. A body is as the client sent it, unless the next handler has
	// read of it: Serve must then return false. Required.
	Serve func(w http.ResponseWriter, r *http.Request, err error) bool
	// Observed is called in observe mode with each call that would have been rejected. nil
	// is notified of nothing.
	Observed func(err error)
}

// A FallbackCall describes a request that a Fallback has taken over, for the Handler that
// serves it: see [Handler.ServeFallback].
type FallbackCall struct {
	Name   string    // of what responds, for Receipts and Proxy-Status
	Reason string    // in one word, as Name
	Began  time.Time // when the first call began: Options.HeadTimeout counts from there. Zero: no call was made
	// Store lets the response be stored, and shared, under the same rules as any other.
	// Otherwise the request bypasses the cache.
	Store bool
}

type (
	fallbackKey struct{} // of the *FallbackCall of a request
	mayFallKey  struct{} // of the calls for which there is a Fallback
)

// fallbackOf returns what r was taken over by, or nil.
func fallbackOf(ctx context.Context) *FallbackCall {
	f, _ := ctx.Value(fallbackKey{}).(*FallbackCall)
	return f
}

// MayFallBack reports whether Options.Fallback will get the request with this context if its
// call fails. It is false while a stale response may be served instead, for background
// refreshes, and once the client has a part of the response. A forwarder needs it to decide
// whether to give up a response.
func MayFallBack(ctx context.Context) bool { return ctx.Value(mayFallKey{}) != nil }

// mayFall returns ctx for a call for which MayFallBack is true if ok.
func (h *Handler) mayFall(ctx context.Context, ok bool) context.Context {
	if h.o.Fallback == nil || !ok {
		return ctx
	}
	return context.WithValue(ctx, mayFallKey{}, true)
}

// ServeFallback responds to r, which another Handler's Fallback has taken over, without
// Options.ClientLimiter, Idempotency and Observe: the other Handler has applied its own.
// The receipt names f.
func (h *Handler) ServeFallback(w http.ResponseWriter, r *http.Request, f FallbackCall) {
	came := h.now()
	turn := h.count.requests.Add(1)
	r = r.WithContext(context.WithValue(r.Context(), fallbackKey{}, &f))
	r, q, why := h.read(r)
	switch {
	case f.Store && why == usesCache:
		h.lookUp(w, r, q, h.key(r), came, turn)
		return
	case f.Store && h.serveRead(w, r, q, came, turn):
		return
	}
	if rule := h.reads.of(r); rule != nil {
		q.Read = heldBy(r) != nil || !rule.GraphQL && !q.Override
	}
	h.pass(w, r, q, came, turn, why, "")
}

// fallsBack hands c, which has failed with err, to Options.Fallback, and reports whether
// that has responded.
func (c *call) fallsBack(err error) bool {
	f := c.h.o.Fallback
	if f == nil || c.rest != nil || ofClient(err) || ofRequest(err) || isPanic(err) {
		return false
	}
	r := c.r
	if c.onward != nil {
		r = c.onward
	}
	r = r.WithContext(r.Context()) // a copy
	rewind(r)
	if !f.Serve(c.w, r, err) {
		return false
	}
	c.receipt.Outcome = OutcomePass // reported by the other Handler
	c.counts(&c.h.count.fellBack)
	return true
}

// wouldFallBack tells the Fallback of a call that would have been rejected with err.
func (h *Handler) wouldFallBack(err error) {
	if f := h.o.Fallback; f != nil && f.Observed != nil {
		f.Observed(err)
	}
}

// headLeft returns how long a call with this context may take to its response headers: for
// one that a Fallback has taken over, what is left.
func (h *Handler) headLeft(ctx context.Context) time.Duration {
	wait := h.o.HeadTimeout
	if f := fallbackOf(ctx); wait > 0 && f != nil && !f.Began.IsZero() {
		return max(1, wait-time.Since(f.Began))
	}
	return wait
}

// within returns a context for admission that ends when headLeft does, if a Fallback has
// taken the call over.
func (h *Handler) within(ctx context.Context) (context.Context, context.CancelFunc) {
	if f := fallbackOf(ctx); f != nil && !f.Began.IsZero() && h.o.HeadTimeout > 0 {
		return context.WithDeadlineCause(ctx, f.Began.Add(h.o.HeadTimeout), errNoHead)
	}
	return ctx, func() {}
}

// givenUp returns the status of the response that a forwarder has given up for a Fallback, 0
// for none.
func givenUp(err error) int {
	var f *ForwardError
	if errors.As(err, &f) {
		return f.Status
	}
	return 0
}

// IsFull reports whether err, of a call, is a refusal of Options.Limiter, Streams or Budget, or
// because of what the origin has stated, for a caller that had no more than its share.
func IsFull(err error) bool {
	var refused *limit.Error
	if !errors.As(err, &refused) || refused.OverShare {
		return false
	}
	switch refusalOf(err, false) {
	case refusedLimit, refusedBudget, refusedPaused:
		return true
	}
	return false
}
