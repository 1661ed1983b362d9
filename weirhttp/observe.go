package weirhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/weir-go/weir/internal/opaque"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/limit"
)

// Bounds of observe mode.
const (
	maxObserved = 65536 // responses whose digests are remembered
	// queueObserved is how many calls beyond the limit count as queued. More than
	// that would have been rejected.
	queueObserved = 1024
)

// errDiffered is reported to an Observer for a response that would have been shared
// with a client that got a different one.
var errDiffered = errors.New("weirhttp: the response differs from the one that would have been shared")

// A shadow is the state of observe mode (H22): what would be stored and in flight, as
// digests. None of it is ever sent to a client.
type shadow struct {
	seed   maphash.Seed
	stored opaque.Cache[responses.Key, *observed]
	over   atomic.Int64 // calls that run beyond the limit
	reads  atomic.Bool  // a read with a body was seen

	mu    sync.Mutex
	calls map[responses.Key][]*observed // guarded by mu; the calls that a later request would join

	hits, joined, compared, differed, queued, refused, refusedClient, refusedBudget, expired atomic.Uint64
}

// observed is a response that would be shared, and the digest to compare.
type observed struct {
	group group
	q     rfc9111.Request // that led to it

	void bool // guarded by shadow.mu: invalidated since it began

	// written before head is closed
	resp rfc9111.Response
	head chan struct{}
	// written before done is closed
	sum  uint64
	ok   bool // it is complete
	done chan struct{}
}

func newShadow() *shadow {
	return &shadow{
		seed:   maphash.MakeSeed(),
		stored: otter.Must(&otter.Options[responses.Key, *observed]{MaximumSize: maxObserved}),
		calls:  make(map[responses.Key][]*observed),
	}
}

func (s *shadow) stats() ObserveStats {
	return ObserveStats{
		Hits: s.hits.Load(), Joined: s.joined.Load(), Compared: s.compared.Load(), Differed: s.differed.Load(),
		Queued: s.queued.Load(), Refused: s.refused.Load(), RefusedClient: s.refusedClient.Load(), RefusedBudget: s.refusedBudget.Load(),
		Expired: s.expired.Load(),
	}
}

// observe forwards r unchanged, and works out what would have happened to it.
func (h *Handler) observe(w http.ResponseWriter, r *http.Request, came time.Time, turn uint64) {
	s := h.shadow
	if h.o.ClientLimiter != nil && h.o.ClientLimiter.Admit(r, make(http.Header)) != nil {
		s.refusedClient.Add(1)
	}
	r, id := h.identify(r, nil)
	q := h.readRequest(r)
	o := &observation{ResponseWriter: w, h: h, r: r, id: id, q: q, sent: time.Now(), endless: q.Upgrade || q.Streams}
	defer o.over(came)
	o.until = h.wouldEnd(r, came)
	held, err := o.receive()
	defer held.release()
	if err != nil {
		o.unreadable(err)
		return
	}
	r, q = o.r, o.q
	o.sum.SetSeed(s.seed)
	key := h.hot.keyOf(h.query.applyTo(r), o.endless)
	h.hot.asked(key, came, turn)
	if o.key.Body == "" {
		if o.asked, o.q, o.why = h.read(r); o.why == usesCache && r.Method == http.MethodGet && !o.q.Range && !o.q.Conditional && !o.q.NoStore {
			o.key = h.key(o.asked)
			o.place()
		}
	} else {
		o.place()
	}
	if o.hit == nil && o.joins == nil {
		o.charge = h.wouldPay(r)
		defer func() { o.charge.finish(o.status, o.err) }()
		defer h.wouldAdmit(r)()
	}
	h.count.calls.Add(1)
	h.count.inFlight.Add(1)
	defer h.count.inFlight.Add(-1)
	o.trace = callTrace{h: h, key: key, apart: o.endless, info: CallInfo{Request: r}}
	o.err = errBroken // unless the handler returns; a panic passes through
	defer func() { o.trace.end(o.err) }()
	returned := false
	defer func() { o.end(returned) }()
	h.next.ServeHTTP(o, o.trace.begin(r))
	returned = true
}

// over records how long o has taken since came.
func (o *observation) over(came time.Time) {
	if !o.endless {
		o.h.requests.Record(time.Since(came))
	}
}

// wouldAdmit counts what the limiter would have done with a call, and returns a
// function that ends it. It acquires as a background call, which never waits.
func (h *Handler) wouldAdmit(r *http.Request) func() {
	s := h.shadow
	p, err := h.o.Limiter.Acquire(limit.ContextWithPriority(context.WithoutCancel(r.Context()), limit.Background))
	if err == nil {
		return func() { p.Release(limit.Ignored) }
	}
	var refusal *limit.Error
	if over := s.over.Add(1); over > queueObserved || errors.As(err, &refusal) && refusal.Reason == limit.RateExceeded {
		s.refused.Add(1)
		h.wouldFallBack(err)
	} else {
		s.queued.Add(1)
	}
	return func() { s.over.Add(-1) }
}

// wouldPay takes the estimated cost of a call from the budgets, as a background call that
// never waits, and counts what they would not have given. Such a call is made all the same,
// and costs nothing there. The charge counts what the call has cost.
func (h *Handler) wouldPay(r *http.Request) *charge {
	if h.costs == nil {
		return nil
	}
	c := &charge{h: h, units: h.costs.estimate(r)}
	ctx := limit.ContextWithPriority(context.WithoutCancel(r.Context()), limit.Background)
	if due := h.invoice(r); due.budget != nil {
		var err error
		if c.bill, err = due.budget.pay(ctx, due.from, due.units); err != nil {
			h.shadow.refusedClient.Add(1)
			return c
		}
	}
	if h.o.Budget != nil {
		var err error
		if c.permit, err = limit.AcquireN(ctx, h.o.Budget, c.units); err != nil {
			h.shadow.refusedBudget.Add(1)
			h.wouldFallBack(err)
			c.bill.undo()
			c.bill = nil
		}
	}
	return c
}

// An observation is one request in observe mode, and the ResponseWriter that inspects
// its response.
type observation struct {
	http.ResponseWriter
	h    *Handler
	r    *http.Request
	q    rfc9111.Request
	id   string // as of a call
	sent time.Time

	asked *http.Request // r without the fields that the policy ignores
	key   responses.Key
	hit   *observed // it would have been served
	joins *observed // r would have waited for it
	leads *observed // r would have started it
	apart *observed // it is fresh, and for requests with other fields
	why   bypass

	status int
	size   int64 // of the body
	fin    bool  // the body ends with the connection
	sum    maphash.Hash
	failed error // of Fail

	charge  *charge
	trace   callTrace
	err     error // the error that ended the response
	endless bool
	until   time.Time // when the time that it states is over; zero if it states none
	counted bool      // its outcome is counted
	lost    bool      // the client no longer takes the response
	events  *events   // as in a fetch
}

var _ Sink = (*observation)(nil)

// place works out what the request would hit, join or lead.
func (o *observation) place() {
	h, s := o.h, o.h.shadow
	c := &call{h: h, r: o.asked, q: o.q, key: o.key}
	if e, ok := s.stored.GetIfPresent(o.key); ok && !o.q.NoCache && !o.q.NoStore && e.group.proof == proofOf(o.asked) && e.resp.At(o.sent, o.q).Fresh {
		if rfc9111.MayShare(&e.resp, &e.q, &o.q) {
			o.hit = e
			return
		}
		o.apart = e
	}
	if c.alone() || o.q.NoStore {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g := c.group()
	for _, e := range s.calls[o.key] {
		if e.group == g {
			o.joins = e
			return
		}
	}
	o.leads = &observed{group: g, q: o.q, head: make(chan struct{}), done: make(chan struct{})}
	o.key = cloned(o.key)
	s.calls[o.key] = append(s.calls[o.key], o.leads)
}

// Unwrap is for http.ResponseController.
func (o *observation) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// WriteHeader writes the headers, and decides what would have been done with them.
func (o *observation) WriteHeader(status int) {
	if o.status != 0 {
		return
	}
	if status >= 200 || status == http.StatusSwitchingProtocols {
		o.status = status
		if status >= 500 && !o.counted {
			o.h.count.missedErrors.Add(1)
		}
		o.counts(&o.h.count.missed)
		o.h.alone.add(o.why.token(), &o.q)
		if !o.until.IsZero() && o.hit == nil && time.Now().After(o.until) {
			o.h.shadow.expired.Add(1)
		}
		o.trace.head(status)
		o.charge.head(status, o.Header())
		o.endless = o.endless || status == http.StatusSwitchingProtocols || isStream(o.Header())
		_, _ = fmt.Fprint(&o.sum, status)
		o.headed()
		o.h.identified(o.ResponseWriter, o.id, true)
		o.h.report(o.ResponseWriter, Receipt{Outcome: OutcomePass, RequestID: o.id, UpstreamStatus: status, Detail: "observe"})
		if _, ok := o.Header()["Content-Type"]; !ok {
			o.Header()["Content-Type"] = nil
		}
	}
	o.ResponseWriter.WriteHeader(status)
}

func (o *observation) headed() {
	h := o.h
	scheme, own := h.scheme(o.r), *o.r
	own.RequestURI = target(o.r)
	for _, t := range rfc9111.Invalidates(&own, scheme, o.status, o.Header()) {
		if o.q.Read {
			break
		}
		for _, t := range h.storedTargets(o.r.Host, t) {
			h.shadow.invalidate(responses.Key{Scheme: scheme, Host: o.r.Host, Target: t})
		}
	}
	if o.asked == nil || o.why != usesCache || o.hit != nil || o.joins != nil {
		return
	}
	now := time.Now()
	resp, stream := h.readHead(o.asked, o.q, o.status, o.Header(), o.fin, o.sent, now)
	switch {
	case resp.Reason != "" && (resp.Reason != rfc9111.ReasonStatus || o.status < http.StatusBadRequest):
		h.alone.add(resp.Reason, &o.q)
	case o.apart != nil:
		h.alone.add(aloneApart, &o.q)
	}
	if o.leads == nil {
		return
	}
	o.events = stream
	if length, _ := strconv.ParseInt(o.Header().Get("Content-Length"), 10, 64); length > h.o.MaxObject {
		resp.Shared, resp.Storable = false, false
	}
	resp.Storable = resp.Storable && !o.fin
	o.leads.resp = resp
	o.h.shadow.mu.Lock() // a request that comes now has the group from before, or finds the call in the new one
	o.h.cache.hints.learn(o.key, &resp, o.q.Credentials, now, o.h.o.Relearn)
	o.leads.group.selected = rfc9111.Selecting(resp.Vary, &o.leads.q)
	o.h.shadow.mu.Unlock()
	close(o.leads.head)
	if !resp.Storable || !resp.Explicit {
		o.h.shadow.forget(o.key, o.leads)
	}
}

// Write writes a piece of the body.
func (o *observation) Write(p []byte) (int, error) {
	if o.status == 0 {
		o.WriteHeader(http.StatusOK)
	}
	_, _ = o.sum.Write(p)
	o.events.takes(p)
	o.charge.data(p)
	o.size += int64(len(p))
	n, err := o.ResponseWriter.Write(p)
	o.lost = o.lost || isLost(err)
	return n, err
}

// Hijack implements [http.Hijacker]. The traffic on the connection is not inspected.
func (o *observation) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(o.ResponseWriter).Hijack()
	if err == nil && o.status == 0 {
		o.status = http.StatusSwitchingProtocols
		o.counts(&o.h.count.missed)
		o.trace.head(o.status)
		o.endless = true
		if o.leads != nil {
			close(o.leads.head) // nothing could have been shared
		}
	}
	return conn, rw, err
}

// FlushError is for http.ResponseController.
func (o *observation) FlushError() error {
	if o.status == 0 {
		o.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// Flush implements [http.Flusher].
func (o *observation) Flush() { _ = o.FlushError() }

// Fail implements [Sink].
func (o *observation) Fail(err error) {
	if o.status != 0 || o.failed != nil {
		return
	}
	o.failed = err
	o.without(err)
	if o.r.Context().Err() == nil {
		o.h.identified(o.ResponseWriter, o.id, false)
		o.h.refuse(o.ResponseWriter, o.r, answerTo(err, false, o.h.o.Gateway), err)
	}
}

// counts is like call.counts.
func (o *observation) counts(in *atomic.Uint64) {
	if !o.counted {
		o.counted = true
		in.Add(1)
	}
}

// without counts that there is no response.
func (o *observation) without(err error) {
	if o.r.Context().Err() != nil {
		o.counts(&o.h.count.left)
		o.h.count.abandoned.Add(1)
		return
	}
	o.counts(&o.h.count.unanswered)
	o.h.failed(o.r, err)
}

// cutOff counts that the handler has panicked, or has ended its goroutine.
func (o *observation) cutOff() {
	switch n := &o.h.count; {
	case o.failed != nil: // it has reported that with Fail
	case o.status == 0:
		o.without(errBroken)
	case o.lost || o.r.Context().Err() != nil:
		n.leftMidway.Add(1)
		n.abandoned.Add(1)
	default:
		o.h.broke(o.status)
	}
}

// CloseDelimited implements [Sink].
func (o *observation) CloseDelimited() { o.fin = true }

// end compares the response with the one that would have been served.
func (o *observation) end(returned bool) {
	if returned {
		o.err = o.failed
	} else {
		o.cutOff()
	}
	if returned && o.status == 0 && o.failed == nil {
		o.WriteHeader(http.StatusOK)
	}
	whole := returned && o.failed == nil && o.events.ends() == nil
	s, sum := o.h.shadow, o.sum.Sum64()
	if e := o.apart; e != nil && whole && e.ok {
		if names := rfc9111.Differing(&e.q, &o.q); len(names) == 1 && slices.Contains(slices.Collect(o.q.Apart()), names[0]) {
			o.h.alone.pair(names[0], sum == e.sum)
		}
	}
	switch {
	case o.hit != nil:
		s.hits.Add(1)
		o.compare(o.hit, sum, whole)
	case o.leads != nil:
		defer s.forget(o.key, o.leads)
		if o.status == 0 {
			close(o.leads.head) // nothing could have been shared
		}
		o.leads.sum, o.leads.ok = sum, whole
		close(o.leads.done)
		if whole && o.leads.resp.Storable && o.events.storable() && o.size <= o.h.o.MaxObject && !o.h.o.NoStore {
			s.keep(o.key, o.leads)
		}
	case o.joins != nil:
		go o.joined(sum, whole) // it ends with the call that the request would have waited for
	}
}

// joined compares the response with that of the call that o would have joined, if it
// could have been shared.
func (o *observation) joined(sum uint64, whole bool) {
	<-o.joins.done
	if rfc9111.MayShare(&o.joins.resp, &o.joins.q, &o.q) {
		o.h.shadow.joined.Add(1)
		o.compare(o.joins, sum, whole)
	}
}

func (o *observation) compare(e *observed, sum uint64, whole bool) {
	if !whole || !e.ok {
		return
	}
	s := o.h.shadow
	s.compared.Add(1)
	if sum != e.sum {
		s.differed.Add(1)
		o.h.event(Event{Kind: EventDiffered, Request: o.r, Status: o.status, Err: errDiffered})
	}
}

// keep records e as stored.
func (s *shadow) keep(key responses.Key, e *observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !e.void {
		s.stored.Set(key, e)
	}
}

// invalidate forgets what is stored under key, and what is about to be.
func (s *shadow) invalidate(key responses.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := func(k responses.Key) {
		for _, e := range s.calls[k] {
			e.void = true
		}
		delete(s.calls, k)
		s.stored.Invalidate(k)
	}
	gone(key)
	if !s.reads.Load() {
		return
	}
	for k := range s.calls {
		if k.Body != "" && k.Whole() == key {
			gone(k)
		}
	}
	for k := range s.stored.Keys() {
		if k.Body != "" && k.Whole() == key {
			gone(k)
		}
	}
}

func (s *shadow) forget(key responses.Key, e *observed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls[key]
	for i := range calls {
		if calls[i] == e {
			calls = append(calls[:i:i], calls[i+1:]...)
			break
		}
	}
	if len(calls) == 0 {
		delete(s.calls, key)
	} else {
		s.calls[key] = calls
	}
}
