package upstream

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// mostSends is how often a request is sent at most on a Route with a Fallback, to both upstreams,
// or with hedges. A call that did not reach a server is none.
const mostSends = 3

// Down is the reason of a fault.ElsewhereError for an upstream of which no server can be used.
const Down = "down"

// A Fallback says which requests of a Route are sent to another upstream if this one does not
// respond to them (H40). RoundTrip ends them with a *fault.ElsewhereError.
type Fallback struct {
	Down     bool
	Statuses []int
	// Status returns the status that a client gets for an error of RoundTrip. Required.
	Status func(error) int
	// May reports whether the request with this context may be sent elsewhere. Required.
	May func(context.Context) bool
	// Refused is called with the reason if the budget of retries does not let a request go. Required.
	Refused func(reason string)
	// Observed is called with the reason instead of ending the request. nil in normal operation.
	Observed func(reason string)
}

type sentKey struct{}

// ContextWithSends returns a context for a request that another upstream has given up after it
// was sent that often.
func ContextWithSends(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, sentKey{}, n)
}

func sendsBefore(ctx context.Context) (n int, ok bool) {
	n, ok = ctx.Value(sentKey{}).(int)
	return n, ok
}

// spends reports whether f, which may be nil, takes sends from the budget of retries.
func (f *Fallback) spends() bool { return f != nil && len(f.Statuses) > 0 }

// most returns how often a request is sent at most before f gets it.
func (f *Fallback) most() int {
	if f.spends() {
		return mostSends - 1 // the last one is f's
	}
	return mostSends
}

// takesDown reports whether f, which may be nil, gets the request with this context if no
// server is in use.
func (f *Fallback) takesDown(ctx context.Context) bool {
	return f != nil && f.Down && f.Observed == nil && f.May(ctx)
}

// end returns how r ends, which has ended here with resp or err: with a *fault.ElsewhereError
// if the Fallback is to get it.
func (t *Route) end(a *attempts, r *http.Request, resp *http.Response, err error) (*http.Response, error) {
	if resp != nil && t.tell != nil {
		t.tell(resp)
	}
	f := t.fallback
	if f == nil || r.Context().Err() != nil {
		return resp, err
	}
	reason := a.elsewhere(resp, err)
	if a.unused {
		reason = Down
	}
	if reason == "" {
		return resp, err
	}
	if f.Observed != nil {
		f.Observed(reason)
		return resp, err
	}
	if !f.May(r.Context()) {
		return resp, err
	}
	take := func() bool { return true }
	if reason != Down {
		if !t.pool.spend() {
			f.Refused(reason)
			return resp, err
		}
		var first atomic.Bool
		take = func() bool { return first.CompareAndSwap(false, true) || t.pool.spend() }
	}
	if resp != nil {
		resp.Body.Close()
		err = &fault.StatusError{Status: resp.StatusCode}
	}
	return nil, &fault.ElsewhereError{Err: err, Reason: reason, Sends: a.sends, Began: a.began, Take: take}
}

// Down reports whether no server of p is in use.
func (p *Pool) Down() bool { return p.book.Unused(p.instant(time.Now())) }

// spend takes a send from the budget of retries.
func (p *Pool) spend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.budget.spend(time.Now(), p.now.Load().o.Retry.Budget) {
		p.noBudget++
		return false
	}
	return true
}
