package weirhttp

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/internal/stream"
	"github.com/weir-go/weir/weirhttp/stop"
)

// A solo is a request with its own call, on its own goroutine: the response goes
// straight to its client. If it may be stored, it is copied on the way. A solo is the
// receiver of the response.
type solo struct {
	c      *call
	call   stop.Context    // canceled if something takes too long
	ctx    context.Context // call, and what is known after the admission
	first  http.Request    // of the next handler
	only   sink            // the first of the call; nearly always the only one
	sink   *sink
	sent   time.Time
	ticket ticket

	own         bool // the server received c's deadline: the response is for c alone, and says nothing to others
	conditional bool // the call revalidates the stored response
	write       *responses.Write

	status  int
	again   bool          // the call must be repeated without conditions
	instead bool          // the stored response is served instead of this one
	missed  bool          // the client's time was over just before the response came
	stated  time.Duration // with instead: as in a flight
	sentOn  bool          // the client has the headers
	valid   *responses.Stored
	resp    rfc9111.Response
	header  http.Header
	copied  *stream.Body // nil if it is not to be stored
	large   bool         // the body is larger than Options.MaxObject
	whole   atomic.Bool  // all of the copied body has arrived, but not its end
	events  *events      // as in a fetch
	gap     *gap         // the call asks for this instead of what the client requested; nil if it does not
	part    *piece       // the response is this part; nil if it is not a part, or not for the store
}

// solo responds to c through a separate call.
func (c *call) solo() {
	h := c.h
	s := &solo{c: c, ticket: ticket{h: h}}
	if ctx := c.r.Context(); !bounded(ctx) && c.stores() {
		// It ends with ctx, the client's, or endGrace later if all of the body has
		// arrived by then.
		s.call.Start(stop.Detach(ctx))
		defer stop.On(ctx, s.clientLeft).Remove()
	} else {
		s.call.Start(ctx)
	}
	cancel := s.call.Cancel
	defer cancel(nil)
	defer s.ticket.close()
	s.ticket.clients.Start(h.o.Clients.terms(), &s.ticket.alarm, h.cutter(c.w, cancel))
	if c.rest == nil && h.hopeless(c.demand.Until) {
		c.fail(errNoChance)
		return
	}
	ctx, err := c.admit(&s.call, &s.ticket, c.r, h.o.Limiter)
	if err == nil && c.rest == nil && h.hopeless(c.demand.Until) {
		err = errNoChance
	}
	if err != nil {
		c.fail(err)
		return
	}
	s.ctx = ctx
	defer func() { // for a panic, and runtime.Goexit
		if s.copied != nil {
			s.forget()
		}
	}()
	until := c.demand.Until
	if c.rest != nil {
		until = time.Time{} // the deadline has ended with the head, and may be over
	}
	told := h.callTime(c.r, until, h.headTimeout(c.q.Streams))
	s.own, s.ticket.own = told.own, told.own
	if c.stores() && !s.own {
		s.write = h.cache.store.Begin(c.key)
		defer func() { s.write.Drop() }()
	}
	if !s.own {
		s.gap = c.gap()
	}
	onward := h.mayFall(ctx, c.rest == nil && !c.mayServeStale())
	for conditional := c.validates() && !s.own; ; conditional = false {
		req, answer := &s.first, &s.only
		if s.sink != nil { // the first can be in use
			req, answer = new(http.Request), new(sink)
		}
		*req = *c.r.WithContext(onward)
		rewind(req)
		drops := (s.write != nil || c.rest != nil) && len(req.Header["Referer"]) > 0 && h.dropsReferer()
		if conditional || s.gap != nil || c.rest != nil || drops || h.changesFields() {
			req.Header = req.Header.Clone()
		}
		if drops {
			delete(req.Header, "Referer")
		}
		if conditional {
			s.conditional = rfc9111.Validators(req.Header, c.stale.Header)
		}
		s.gap.ask(req.Header)
		if c.rest != nil {
			c.rest.ask(req.Header)
		}
		s.again, s.instead, s.sent, s.sink = false, false, time.Now(), answer.start(s, req.Method, callTrace{
			h: h, key: c.key, queued: c.receipt.Queued, info: CallInfo{Request: c.r},
		})
		s.sink.streams = c.q.Streams
		s.sink.ticket = &s.ticket
		req = h.timed(req, told, s.write != nil)
		err = h.exchange(req, s.sink, cancel, nil)
		if s.again && err == nil {
			s.conditional, s.gap = false, nil
			continue
		}
		break
	}
	if s.again && s.gap != nil {
		s.instead = false // there is no response, and no stored one
	}
	s.ticket.settle(ctx, s.status, err, s.sink.trace.start)
	s.finish(err)
}

// clientLeft is called when the client has left.
func (s *solo) clientLeft() {
	ctx := s.c.r.Context()
	if !s.whole.Load() {
		s.call.Cancel(context.Cause(ctx))
		return
	}
	time.AfterFunc(endGrace, func() { s.call.Cancel(context.Cause(ctx)) })
}

// bounded reports whether ctx has a deadline.
func bounded(ctx context.Context) bool {
	_, ok := ctx.Deadline()
	return ok
}

func (s *solo) early(status int, h http.Header) {
	if s.c.rest == nil { // otherwise the client has the final headers
		writeEarly(s.c.w, s.c.r, status, h)
	}
}

func (s *solo) head(status int, header http.Header, length int64) {
	c, h := s.c, s.c.h
	now := time.Now()
	s.status = status
	if c.rest != nil {
		if s.sentOn = c.rest.begins(s.sink, status, header, length); !s.sentOn {
			s.instead, s.sink.err = true, errOtherBody
		}
		return
	}
	c.receipt.UpstreamStatus = status
	if s.conditional && status == http.StatusNotModified {
		s.instead = true
		if !rfc9111.Validates(c.stale.Header, header) {
			s.again = true
			h.cache.store.Remove(c.key, c.stale)
			return
		}
		s.valid = h.freshen(c.key, s.write, c.r, c.q, c.stale, header, s.sent, now, nil)
		return
	}
	if isError(status) && c.mayServeStale() {
		s.instead, s.stated = true, statedIn(status, header)
		return
	}
	if s.gap != nil && !s.fills(status, header) {
		return
	}
	if !c.time.begins() {
		s.missed, s.sink.err = true, ErrOutOfTime
		return
	}
	s.resp, s.events = h.judge(c.key, c.r, c.q, status, header, s.sink.fin, s.sent, now)
	if s.own {
		s.resp.Storable, s.resp.Shared = false, false
		s.resp.Reason = cmp.Or(s.resp.Reason, detailDeadline)
	} else {
		h.withdraw(c.key, c.stale, &s.resp, c.q, false, now)
	}
	if old := c.stale; old != nil && old.Status == http.StatusOK && old.Partial == nil && !s.own && !c.gets() && !c.q.Range && !c.q.Conditional &&
		rfc9111.Outdated(old.Header, old.Size(), status, header) {
		h.cache.store.Expire(c.key, old)
	}
	s.sink.whether = s.events.ends
	if !s.own {
		s.readPart(status, header, now)
	}
	if isStream(header) {
		c.endless = true
		s.ticket.endless(s.ctx, s.events != nil && h.o.Events.AsCalls)
	}
	if c.gets() && !c.q.Range && !c.q.Conditional && !s.own {
		h.cache.learn(c.key, &s.resp, c.q.Credentials, now, h.o.Relearn)
	}
	s.keep(header, length)
	s.header = header
	c.receipt.TTL = s.resp.Lifetime - s.resp.Age
	c.receipt.Stored = s.copied != nil
	if s.copied == nil {
		c.receipt.Detail = s.resp.Reason
	}
	s.sentOn = true
	if s.gap == nil {
		copyFields(c.w.Header(), relayed(header))
		c.writeHead(OutcomeMiss, status)
		return
	}
	c.partial = true
	copyFields(c.w.Header(), relayed(rfc9111.Combine(s.gap.part.Header, header)))
	rangeFields(c.w.Header(), s.gap.first, s.gap.last, s.gap.part.Partial.Total)
	c.writeHead(OutcomeMiss, status)
	if err := s.toClient(s.gap.before); err != nil {
		s.sink.err = err
	}
}

// keep decides whether the response is copied on the way.
func (s *solo) keep(header http.Header, length int64) {
	c, o := s.c, &s.c.h.o
	if s.write == nil || !s.resp.Storable || s.sink.fin || !c.gets() {
		return
	}
	// If it is expected to be too large, a copy would only take memory from others.
	if length > o.MaxObject || length < 0 && c.h.cache.hints.of(c.key).large(c.q.Credentials, time.Now()) {
		s.resp.Reason = detailLarge
		return
	}
	if s.part != nil {
		if length = s.part.Len(); length > o.MaxObject {
			return
		}
	}
	s.copied = stream.New(stream.Options{
		Size: length, Limit: o.MaxObject, Reserve: s.c.h.cache.store.Reserve,
	})
}

func (s *solo) data(p []byte) error {
	if s.instead || s.missed {
		return s.sink.err
	}
	s.events.takes(p)
	s.whole.Store(s.copied != nil && hasAll(s.sink, s.events))
	if s.c.rest != nil {
		p = s.c.rest.next(p)
	} else if !s.large && s.sink.written > s.c.h.o.MaxObject {
		s.large = true
		s.measured()
	}
	if s.copied != nil {
		if _, err := s.copied.Write(s.ctx, p); err != nil {
			s.forget() // over the limit
		}
	}
	if s.sink.ended || s.c.h.o.Gateway && s.sink.written == s.sink.length {
		s.ticket.handOver(s.status)
	}
	return s.toClient(p)
}

// toClient writes a piece of the body to the client.
func (s *solo) toClient(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	s.ticket.clients.Begin(slow.Down, len(p))
	n, err := s.c.w.Write(p)
	s.ticket.clients.End(slow.Down, n)
	if err != nil {
		return errClient{err}
	}
	return nil
}

func (s *solo) flush() {
	if !s.instead && !s.missed {
		s.ticket.clients.Begin(slow.Down, 0)
		_ = http.NewResponseController(s.c.w).Flush() // without a Flush, it is sent at the end
		s.ticket.clients.End(slow.Down, 0)
	}
}

// clientLost reports whether err, with which the call has ended, is because of the
// client, also if a handler that panics for it hides that.
func (s *solo) clientLost(err error) bool {
	return errors.As(s.sink.err, new(errClient)) || errors.Is(err, ErrSlowClient)
}

// measured records whether the body, or what has arrived of it, is larger than
// Options.MaxObject.
func (s *solo) measured() {
	if c := s.c; c.gets() && !c.q.Range && !c.q.Conditional && !s.own {
		c.h.cache.hints.measured(c.key, &s.resp, c.q.Credentials, s.large, time.Now(), c.h.o.Relearn)
	}
}

func (s *solo) forget() {
	s.copied.Finish(nil, errBroken)
	s.copied.Release()
	s.copied = nil
}

// finish is called when the call has ended, with an error if the response is
// incomplete.
func (s *solo) finish(err error) {
	c := s.c
	if c.rest != nil {
		s.continued(err)
		return
	}
	if c.stale != nil && err == nil && !isError(s.status) {
		c.stale.Recovers()
	}
	switch {
	case s.valid != nil:
		c.serveStored(s.valid, OutcomeValidated)
		return
	case s.instead && s.own:
		c.stay(failed(s.status, s.stated))
		return
	case s.instead:
		c.serveStale(failed(s.status, s.stated))
		return
	case err != nil && !s.sentOn:
		c.noAnswer(err)
		c.fail(err)
		return
	case err != nil:
		c.cutOff(s.status, s.clientLost(err))
		if s.copied != nil {
			s.forget()
		}
		c.broken(err)
	}
	if s.gap != nil {
		if err := s.toClient(s.gap.after); err != nil {
			c.brokenBy(err)
		}
	}
	copyTrailers(c.w, s.sink.fixed, s.sink.trailers())
	if !s.large {
		s.measured()
	}
	if s.copied == nil {
		return
	}
	s.copied.Finish(nil, nil)
	switch whole, kept := s.copied.Whole(); {
	case kept && s.part != nil:
		s.keepPart(whole)
	case kept && ruleOf(c.r).errorReported(s.header, whole, c.h.o.MaxObject):
	case kept && s.events.storable():
		stored := s.events.stored(c.h, s.resp, c.r, c.q, s.header, whole)
		stored.Cost = s.ticket.charge.cost()
		s.write.Put(stored)
	}
	s.copied.Release()
}
