package upstream

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream/choose"
	"github.com/weir-go/weir/gateway/internal/upstream/hedge"
)

// HedgeOptions say when a call of a route is repeated at another server (H41).
type HedgeOptions struct {
	Rule hedge.Rule
	// State is what is known of the route's calls. It outlives a Route.
	State *hedge.State
	// Reads reports whether a request whose method is not GET, HEAD or QUERY only reads. nil means
	// that none does.
	Reads func(*http.Request) bool
	// Permit returns a permit for a hedge if one is free without waiting, to be given back
	// with release. nil means that none is needed.
	Permit func() (release func(), ok bool)
	// Observe counts the hedges, and sends none.
	Observe bool
}

// A Side is one of two calls for a request, apart from the other. forward.Side is one. It may be
// nil.
type Side interface {
	// Working returns nil, or, after the call has returned because it was given up, a channel that
	// is closed when its server has ended its work.
	Working() <-chan struct{}
	// Left is called after the call has returned, if the client has left.
	Left()
}

// Why a call was given up. Neither is a timeout, which would count against the server.
var (
	errLost = errors.New("upstream: the other call for the request has responded first")
	errOver = errors.New("upstream: the request has ended")
)

// may reports whether r may have two calls. r.Body must be as the Handler has left it.
func (o *HedgeOptions) may(now *settings, r *http.Request) bool {
	if o == nil || len(now.servers) < 2 || wantsStream(r) || now.sticks(r) {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, "QUERY":
	default:
		if o.Reads == nil || !o.Reads(r) {
			return false
		}
	}
	return bodyless(r) || r.GetBody != nil
}

// Several reports whether there is more than one server.
func (p *Pool) Several() bool { return len(p.now.Load().servers) > 1 }

// keyed is how much of a body is part of the key of its request.
const keyed = 1 << 10

// keyOfCall returns the key of r: calls with the same key are expected to take about as long.
func keyOfCall(r *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, s := range [...]string{r.Method, r.Host, r.URL.Opaque, r.URL.RawPath, r.URL.Path, r.URL.RawQuery} {
		h.WriteString(s)
		h.WriteByte(0)
	}
	if b, ok := r.Body.(io.ReaderAt); ok {
		var part [keyed]byte
		n, _ := b.ReadAt(part[:], 0)
		h.Write(part[:n])
	}
	return h.Sum64()
}

// tenant returns the client that r is counted for: an address, of IPv6 its /64.
func (t *Route) tenant(r *http.Request) uint64 {
	if t.client == nil {
		return 0
	}
	addr := t.client(r).Unmap()
	if addr.Is6() {
		if p, err := addr.WithZone("").Prefix(64); err == nil {
			addr = p.Addr()
		}
	}
	return maphash.Comparable(seed, netip.Addr(addr))
}

// A result is how a call has ended.
type result struct {
	resp *http.Response
	err  error
	good bool // a head that is no failure
}

func (a *attempts) result(resp *http.Response, err error) result {
	return result{resp, err, err == nil && a.class != choose.Failure}
}

func (r result) close() {
	if r.resp != nil && r.resp.Body != nil {
		r.resp.Body.Close()
	}
}

// The calls of a race.
const (
	theFirst = iota
	theHedge
	undecided
)

// A race is a request's first call, on the request's goroutine, and its hedge, on the goroutine of
// a timer. A request that is not slow has no hedge, and costs a timer.
//
// The first head that is no failure wins, and of two failures the first. The call that decides
// cancels the other one. A call that ends after that closes its response.
type race struct {
	t     *Route
	now   *settings
	r     *http.Request // neither call sends or changes it: both send a copy
	get   func() (io.ReadCloser, error)
	retry Retry
	call  hedge.Call
	sides [2]Side
	done  chan struct{} // closed when the hedge has ended
	over  chan struct{} // closed when the first call has

	mu      sync.Mutex
	stops   [2]context.CancelCauseFunc // guarded by mu
	request choose.Request             // guarded by mu: of the hedge
	trial   bool                       // guarded by mu: the first call tries a server
	closed  bool                       // guarded by mu: no hedge begins any more
	at      *server                    // guarded by mu: the hedge's, nil if there is none
	winner  int                        // guarded by mu
	results [2]*result                 // guarded by mu: of the calls that have ended
}

// race sends r as send does, and also to another server if the head takes longer than most. twice
// reports whether it has. key is keyOfCall(r), and get returns a copy of the body.
func (a *attempts) race(r *http.Request, key uint64, get func() (io.ReadCloser, error), retry Retry) (resp *http.Response, err error, twice bool) { //nolint:revive // as send
	p, h := a.t.pool, a.t.hedge
	call, after, known := h.State.Begin(p.instant(time.Now()), h.Rule, key, a.t.tenant(r))
	if !known {
		resp, err = a.send(r)
		h.State.End(p.instant(time.Now()), h.Rule, &call, outcome(r.Context(), a.result(resp, err)))
		return resp, err, false
	}
	rc := &race{t: a.t, now: a.now, r: r, get: get, retry: retry, call: call, winner: undecided, done: make(chan struct{}), over: make(chan struct{})}
	ctx, stop := context.WithCancelCause(rc.apart(r.Context(), theFirst))
	rc.stops[theFirst] = stop
	a.racing = rc
	timer := time.AfterFunc(after, rc.fire)
	returned := false
	defer func() {
		a.racing = nil
		timer.Stop()
		if !returned { // a panic
			rc.abandon()
		}
	}()
	resp, err = a.send(copyOf(r, ctx))
	returned = true
	if s := rc.sides[theFirst]; s != nil && r.Context().Err() != nil {
		s.Left()
	}
	first := a.result(resp, err)
	hedged := rc.close()
	if hedged {
		rc.arrive(theFirst, first)
	}
	how := outcome(r.Context(), first)
	if rc.won(theHedge) {
		how = hedge.GaveUp
	}
	h.State.End(p.instant(time.Now()), h.Rule, &rc.call, how)
	close(rc.over)
	if !hedged {
		return resp, err, false
	}
	if !rc.won(theFirst) {
		<-rc.done
	}
	rc.mu.Lock()
	defer rc.mu.Unlock()
	a.tried = append(a.tried, &rc.at.known)
	best := rc.results[rc.winner]
	return best.resp, best.err, true
}

// outcome returns how a first call has ended, whose request has ctx.
func outcome(ctx context.Context, r result) hedge.Outcome {
	switch {
	case r.good:
		return hedge.Headed
	case ctx.Err() != nil:
		return hedge.GaveUp
	}
	return hedge.Failed
}

// copyOf returns a copy of r for one call, which changes it.
func copyOf(r *http.Request, ctx context.Context) *http.Request { //nolint:revive // as http.Request.WithContext
	r = r.WithContext(ctx)
	u := *r.URL
	r.URL = &u
	return r
}

// apart returns a context for one of the calls.
func (rc *race) apart(ctx context.Context, which int) context.Context {
	if apart := rc.t.pool.env.Apart; apart != nil {
		ctx, rc.sides[which] = apart(ctx, which == theHedge)
	}
	return ctx
}

// goes records that the first call goes to k, the last server of a.tried.
func (rc *race) goes(a *attempts, k taken) {
	q := choose.Request{Route: rc.t.place, Client: a.request.Client, Key: a.request.Key, Bound: a.request.Bound, Spare: true}
	q.Tried = append(q.Tried, a.tried...)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.request, rc.trial = q, k.probe
}

// close lets no hedge begin any more, and reports whether there is one.
func (rc *race) close() bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.closed = true
	return rc.at != nil
}

// abandon ends the race without a winner: the first call has panicked.
func (rc *race) abandon() {
	rc.mu.Lock()
	rc.closed = true
	rc.winner = min(rc.winner, theFirst)
	failed, stop := rc.results[theHedge], rc.stops[theHedge]
	rc.mu.Unlock()
	close(rc.over)
	if stop != nil {
		stop(errOver)
	}
	if failed != nil {
		failed.close()
	}
}

func (rc *race) won(which int) bool {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return rc.winner == which
}

// arrive records the result of a call.
func (rc *race) arrive(which int, r result) {
	other := 1 - which
	var beaten *result
	var stop context.CancelCauseFunc
	rc.mu.Lock()
	rc.results[which] = &r
	switch {
	case rc.winner != undecided:
		beaten = &r
	case r.good:
		rc.winner, beaten = which, rc.results[other]
		if beaten == nil {
			stop = rc.stops[other]
		}
	case rc.results[other] != nil:
		rc.winner, beaten = other, &r
	}
	rc.mu.Unlock()
	if stop != nil {
		stop(errLost)
	}
	if beaten != nil {
		beaten.close()
	}
}

// fire sends the hedge, if there is to be one. It waits until the server that has lost has ended
// its work, because the permit is for that.
func (rc *race) fire() {
	p, h := rc.t.pool, rc.t.hedge
	rc.mu.Lock()
	ok := !rc.closed && !rc.trial && len(rc.request.Tried) > 0 // otherwise the request waits for a server
	rc.mu.Unlock()
	if !ok || h.State.Hedge(p.instant(time.Now()), &rc.call) != hedge.Sent {
		return
	}
	if h.Observe {
		h.State.Withdraw(&rc.call, hedge.Sent, true)
		return
	}
	if h.Permit != nil {
		release, ok := h.Permit()
		if !ok {
			h.State.Withdraw(&rc.call, hedge.Busy, false)
			return
		}
		defer release()
	}
	if (rc.retry.Attempts > 1 || rc.t.fallback.spends()) && !p.pays() {
		h.State.Withdraw(&rc.call, hedge.Budget, false)
		return
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(rc.apart(rc.r.Context(), theHedge)))
	k, why := rc.begin(stop)
	if k.s == nil {
		stop(errOver)
		h.State.Withdraw(&rc.call, why, false)
		return
	}
	// The cause is not the request's: a time-out counts against the first server,
	// which had all of the time.
	unlink := context.AfterFunc(rc.r.Context(), func() { stop(errOver) })
	r := rc.send(k, ctx)
	now := p.instant(time.Now())
	rc.arrive(theHedge, r)
	lost := ctx.Err() != nil
	close(rc.done)
	if rc.won(theHedge) {
		h.State.Ended(now, &rc.call, true, false)
		<-rc.over
		if d := rc.works(theFirst); d > 0 {
			h.State.Worked(h.Rule, &rc.call, d)
		}
		return
	}
	if rc.won(theFirst) { // otherwise the response may still be used
		unlink()
		stop(errOver)
	}
	rc.works(theHedge)
	h.State.Ended(p.instant(time.Now()), &rc.call, false, !r.good && !lost)
}

// works waits until the server of a call that was given up has ended its work, and returns for
// how long. The Transport bounds it.
func (rc *race) works(which int) time.Duration {
	if rc.sides[which] == nil {
		return 0
	}
	working := rc.sides[which].Working()
	if working == nil {
		return 0
	}
	began := time.Now()
	<-working
	return time.Since(began)
}

// begin chooses a server for the hedge, unless the first call has ended. Without one it returns
// why.
func (rc *race) begin(stop context.CancelCauseFunc) (taken, hedge.Verdict) {
	p := rc.t.pool
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.closed {
		return taken{}, hedge.Sent
	}
	c, _ := p.book.Pick(p.instant(time.Now()), rc.request)
	if c == nil {
		return taken{}, hedge.Servers
	}
	s := c.Server.Of.(*server) //nolint:forcetypeassert // always
	s.count()
	rc.at, rc.stops[theHedge] = s, stop
	return taken{s: s, c: c}, hedge.Sent
}

// send makes the hedge's call.
func (rc *race) send(k taken, ctx context.Context) (r result) { //nolint:revive // as copyOf
	defer func() {
		if v := recover(); v != nil { // the goroutine belongs to a timer
			r = result{err: fmt.Errorf("upstream: the second call for a request panicked: %v", v)}
		}
	}()
	out := copyOf(rc.r, ctx)
	out.Body, out.GetBody = nil, nil
	if rc.get != nil {
		body, err := rc.get()
		if err != nil {
			rc.t.pool.leave(k)
			return result{err: err}
		}
		out.Body, out.GetBody = body, rc.get
	}
	a := attempts{t: rc.t, now: rc.now}
	return a.result(a.call(k, out))
}

// pays takes a hedge off the budget of retries.
func (p *Pool) pays() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.spend(time.Now(), p.now.Load().o.Retry.Budget)
}
