package weirhttp

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	coalesce "github.com/weir-go/weir/flight"
	"github.com/weir-go/weir/internal/admit"
	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/internal/stream"
	"github.com/weir-go/weir/limit"
)

// fly makes the call of f. It runs on the flight's goroutine, which ends when the
// next handler has returned.
func (f *flight) fly(ctx context.Context) {
	h := f.group.handler
	ended := false
	var t *fetch
	defer func() {
		f.ticket.close()
		if t != nil && !ended { // runtime.Goexit in the handler: no other code runs after it
			t.finish(coalesce.ErrGoexit)
		}
		if f.refresh {
			h.background.Add(-1)
			defer h.refreshing.Done()
		}
		f.write.Drop()
		f.close()
		f.lookup.close()
		f.cancel(nil)
	}()
	if f.lookup != nil && !f.consult(ctx) {
		return
	}
	if !f.pays(ctx) {
		return
	}
	began := time.Now()
	f.ticket.clients.Start(slow.Terms{}, &f.ticket.alarm, f.cut)
	if f.admit(ctx) != nil || f.hopeless() {
		return
	}
	f.queued = time.Since(began)
	h.delayed(f.queued)
	missing := f.gap()
	onward := h.mayFall(ctx, !f.refresh && (f.known == nil || !f.known.At(time.Now(), f.q).IfError))
	for conditional := f.stale != nil; ; conditional, missing = false, nil {
		t = &fetch{f: f, ctx: ctx, gap: missing}
		req := f.req.WithContext(onward)
		rewind(req)
		if conditional || missing != nil || h.changesFields() {
			req.Header = req.Header.Clone()
		}
		if conditional {
			t.conditional = rfc9111.Validators(req.Header, f.stale.Header)
		}
		missing.ask(req.Header)
		req = h.timed(req, h.callTime(req, time.Time{}, h.headTimeout(f.q.Streams)), true)
		t.sent = time.Now()
		s := new(sink).start(t, req.Method, callTrace{
			h: h, key: f.key, flight: f, queued: f.queued, info: CallInfo{Request: f.req, Background: f.refresh},
		})
		t.sink, s.streams, s.ticket = s, f.q.Streams, &f.ticket
		err := h.exchange(req, s, f.cancel, f.late)
		if t.again && err == nil {
			continue // it was for something other than the stored response
		}
		ended = true
		f.ticket.clients.Close()
		f.ticket.settle(ctx, t.status, err, t.sink.trace.start)
		t.finish(err)
		return
	}
}

// late ends f without a response, or in the middle of it: its handler may never
// return.
func (f *flight) late(err error) {
	f.tells(0, err)
	f.lookup.late(err)
	c := f.group.handler.cache
	c.mu.Lock()
	f.decideLocked(fateAbandoned)
	failed := f.endLocked(func() { f.err = err })
	c.mu.Unlock()
	if failed {
		if !errors.Is(err, ErrAbandoned) { // which leave has counted
			f.group.handler.failed(f.req, err)
		}
		return
	}
	<-f.headed // it may be judged right now
	if f.body != nil {
		f.detach()
		f.body.Finish(nil, err)
	}
}

// admit waits for a permit on behalf of all callers of f.
func (f *flight) admit(ctx context.Context) error {
	_, err := admit.Acquire(ctx, (*admission)(f))
	c := f.group.handler.cache
	c.mu.Lock()
	f.place = nil
	if err == nil {
		f.reachLocked(phaseCalling)
	}
	c.mu.Unlock()
	return err
}

// An admission adapts a flight to admit.Acquire.
type admission flight

func (a *admission) Lock()   { a.group.handler.cache.mu.Lock() }
func (a *admission) Unlock() { a.group.handler.cache.mu.Unlock() }

func (a *admission) QueueLocked(at *limit.Place) {
	a.place = at
	a.reachLocked(phaseQueued)
}

func (a *admission) DemandLocked() (admit.Demand, bool) {
	return (*flight)(a).demandLocked(), a.fate == fateOpen
}

func (a *admission) Ask(ctx context.Context) (limit.Permit, error) {
	err := a.ticket.acquire(ctx, a.req, a.group.handler.o.Limiter.Acquire)
	return a.ticket.permit, err
}

func (a *admission) RefusedLocked(err error) {
	(*flight)(a).endLocked(func() { a.err = err })
}

// laggards is how long, in total, slow readers may hold back the others of a big
// body, once there is no memory to keep for them what they have not read.
const laggards = 2 * time.Second

// soleWindow is the window of a body with a single reader. The windows share memory
// with the store, so that many slow readers must not hold much of it.
const soleWindow = 256 << 10

// A fetch is one call of the next handler for a flight. It receives the response.
type fetch struct {
	f    *flight
	ctx  context.Context
	sink *sink
	sent time.Time
	// conditional: the call revalidates the stored response.
	conditional bool
	gap         *gap // it asks for this instead of the whole body; nil if it does not

	status int
	again  bool    // the call must be repeated without conditions
	drop   bool    // no client gets the body
	large  bool    // the body is larger than Options.MaxObject
	whole  bool    // flight.whole
	events *events // what it follows if it is a shared event stream, else nil
	resp   rfc9111.Response
	header http.Header
	body   *stream.Body
}

func (t *fetch) early(status int, h http.Header) {
	f := t.f
	c := f.group.handler.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range f.waiting {
		if w.leader && len(w.info) < mostEarly {
			w.info = append(w.info, early{status, h})
			select {
			case w.told <- struct{}{}:
			default: // it has not looked since
			}
		}
	}
}

func (t *fetch) head(status int, header http.Header, length int64) {
	f, h := t.f, t.f.group.handler
	t.status = status
	now := time.Now()
	if t.conditional && status == http.StatusNotModified {
		t.drop = true
		if !rfc9111.Validates(f.stale.Header, header) {
			t.again = true
			h.cache.store.Remove(f.key, f.stale)
			return
		}
		f.validated(h.freshen(f.key, f.write, f.req, f.q, f.stale, header, t.sent, now, f.lookup))
		return
	}
	if t.gap != nil {
		var ok bool
		if status, header, length, ok = t.fills(status, header, length); !ok {
			return
		}
	}
	t.resp, t.events = h.judge(f.key, f.req, f.q, status, header, t.sink.fin, t.sent, now)
	gone := h.withdraw(f.key, f.known, &t.resp, f.q, false, now)
	f.events, t.sink.whether = t.events, t.events.ends
	if isStream(header) {
		f.ticket.endless(t.ctx, t.events != nil && h.o.Events.AsCalls)
	}
	if t.sink.fin && t.resp.Storable {
		t.resp.Storable, t.resp.Reason = false, "close-delimited"
	}
	if h.o.NoStore && t.resp.Storable {
		t.resp.Storable, t.resp.Reason = false, "storing is off"
	}
	size := length
	if t.sink.noBody {
		size = 0
	}
	t.header = header
	oversize, window := size > h.o.MaxObject, h.o.Window
	if oversize {
		window = min(window, soleWindow)
		// The requests released now do not share the response either, or they would
		// wait for each other once more (H7).
		t.resp.Shared = false
		if t.resp.Storable {
			t.resp.Storable, t.resp.Reason = false, detailLarge
		}
		t.outgrows()
	}
	t.body = stream.New(stream.Options{
		Size: size, Limit: h.o.MaxObject, Window: window, Patience: laggards,
		Reserve: h.cache.store.Reserve, Grow: h.cache.store.ReserveSpare,
	})
	if isError(status) {
		f.stated = statedIn(status, header)
	}
	f.lookup.head(&t.resp, size, gone)
	if first := t.sink.pending; t.gap == nil && len(first) > 0 && !oversize && t.body.Begin(first) {
		// Before any caller wakes up: a caller that finds it there sends headers and
		// body in one write.
		t.sink.pending = nil
		t.takes(first)
		f.lookup.grown(t.sink.written)
	}
	if t.gap == nil && t.sink.ended && !oversize && len(t.sink.pending) == 0 {
		// Likewise, a response that is already complete is not sent before the call
		// is over: a client that has it finds it stored, and the permit released.
		f.callEnded()
		t.body.Finish(t.sink.trailers(), t.events.ends())
	}
	if isError(status) {
		f.tells(status, nil) // before a caller gets the stored response and the next one arrives
	}
	t.drop = !f.head(t.resp, relayed(header), t.body, length, oversize)
	if t.gap != nil {
		if err := t.data(t.gap.before); err != nil {
			t.sink.err = err
		}
	}
}

func (t *fetch) data(p []byte) error {
	if t.drop || len(p) == 0 {
		return nil
	}
	t.takes(p)
	if !t.large && t.sink.written > t.f.group.handler.o.MaxObject {
		t.outgrows()
		t.f.detach()
	}
	t.f.ticket.clients.Begin(slow.Down, len(p)) // the readers may hold back the writer
	n, err := t.body.Write(t.ctx, p)
	t.f.ticket.clients.End(slow.Down, n)
	t.f.lookup.grown(t.sink.written)
	return err
}

// takes looks at the next part of the body before the readers get it.
func (t *fetch) takes(p []byte) {
	f := t.f
	if t.events.takes(p) {
		f.detach()
	}
	whole := t.gap == nil && hasAll(t.sink, t.events)
	if whole == t.whole {
		return
	}
	t.whole = whole
	c := f.group.handler.cache
	c.mu.Lock()
	f.whole = whole
	c.mu.Unlock()
}

// outgrows records that the body is larger than Options.MaxObject. The next clients
// make separate calls: the slower ones of those that share it need memory for what they
// have not read, which may not be available.
func (t *fetch) outgrows() {
	f, h := t.f, t.f.group.handler
	t.large = true
	h.cache.hints.measured(f.key, &t.resp, f.q.Credentials, true, time.Now(), h.o.Relearn)
}

// cut ends the call: its readers are the slowest of too many.
func (f *flight) cut(err error, _, _ bool) {
	f.group.handler.countCut(err)
	f.cancel(err)
}

func (t *fetch) flush() {} // readers get it at once

// finish ends the flight after its call has ended. The response is stored before the
// flight leaves the table.
func (t *fetch) finish(err error) {
	f, h := t.f, t.f.group.handler
	if t.body == nil || !isError(t.status) { // otherwise it was reported with the headers
		f.tells(t.status, err)
	}
	if t.gap != nil && t.body != nil && err == nil {
		err = t.data(t.gap.after)
	}
	f.lookup.ends(err)
	if t.body == nil {
		if err != nil {
			f.late(err)
		}
		return
	}
	if err != nil && f.err == nil {
		switch {
		case errors.Is(err, stream.ErrNobody):
			f.unread()
		case errors.Is(err, ErrSlowClient):
			h.count.abandoned.Add(1)
		case !errors.Is(err, ErrAbandoned): // which leave has counted
			h.broke(t.status)
		}
		f.detach() // or a later request would join a lost flight
	}
	f.callEnded()
	t.body.Finish(t.sink.trailers(), err)
	if t.drop {
		t.body.Release()
	}
	if err != nil || t.drop || !t.resp.Storable || !t.events.storable() {
		return
	}
	whole, kept := t.body.Whole()
	if !kept || ruleOf(f.req).errorReported(t.header, whole, h.o.MaxObject) {
		return
	}
	s := t.events.stored(h, t.resp, f.req, f.q, t.header, whole)
	s.Cost = f.ticket.charge.cost()
	f.lookup.brings(s)
	if f.write.Put(s) {
		t.body.Release() // it counts as stored now; otherwise released when its last reader leaves
	}
}

// stored builds a stored response from the parts of a response that are kept.
func (h *Handler) stored(resp rfc9111.Response, req *http.Request, q rfc9111.Request, header http.Header, body []byte) *responses.Stored {
	kept := rfc9111.EndToEnd(header)
	delete(kept, h.o.RequestID)
	for name := range kept {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			delete(kept, name)
		}
	}
	if kept.Get("Date") == "" { // RFC 9110 section 6.6.1: a cache that stores it without a Date adds one
		kept.Set("Date", resp.Received.UTC().Format(http.TimeFormat))
	}
	s := &responses.Stored{
		Response: resp, Selected: rfc9111.Selecting(resp.Vary, &q), Asked: &q, Names: responses.NamesOf(q.Fields), Proof: proofOf(req),
		Header: kept, Body: body,
		Extra: readySize(len(kept)), Room: uint16(h.o.MaxVariants), //nolint:gosec // at most MostVariants
		Events: isStream(kept), Rules: h.rulesFor(&resp, req.Header),
	}
	if s.Events {
		s.Rules = 0 // the folder has no event streams
	}
	if resp.StaleVary != "" {
		s.Stale = rfc9111.Selecting([]string{resp.StaleVary}, &q)
	}
	s.Refresh.Store(h.refreshFrom(s).UnixNano())
	s.Checked.Store(resp.Received.UnixNano())
	return s
}

// freshen stores old, which a 304 has validated, with the updated fields of the 304,
// and returns the result. If these forbid storing it, old is removed, see withdraw.
// lookup may be nil.
func (h *Handler) freshen(key responses.Key, w *responses.Write, r *http.Request, q rfc9111.Request, old *responses.Stored, update http.Header, sent, now time.Time, lookup *fleetLookup) *responses.Stored {
	header := rfc9111.Freshen(old.Header, update)
	resp, _ := h.judge(key, r, q, old.Status, header, false, sent, now)
	resp.Narrow(&old.Response)
	s := h.stored(resp, r, q, header, old.Body)
	s.Pace, s.Cost = old.Pace, old.Cost
	gone := h.withdraw(key, old, &resp, q, true, now)
	lookup.head(&resp, int64(len(s.Body)), gone)
	lookup.brings(s)
	if resp.Storable {
		w.Replace(old, s)
	}
	return s
}
