package weirhttp

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-go/weir/internal/rfc9111"
	"github.com/weir-go/weir/internal/stream"
)

// follow waits for the response of f, which c has joined: before the headers as w, or
// after them with a nil w. If c has no outcome afterwards, it may not use the
// response.
func (c *call) follow(f *flight, w *joiner) {
	h := c.h
	waits := w != nil && !w.leader
	var since time.Time
	if waits {
		since = time.Now()
		h.count.waiting.Add(1)
		defer h.count.waiting.Add(-1)
	}
	there := c.awaitHead(f, w)
	if waits {
		c.waited(f, since, !there)
	}
	if !there {
		c.gone()
		return
	}
	defer f.leave()
	c.adopt(f)
	c.noted = c.stale == f.known && !f.refresh && f.fleet.because == nil
	c.receipt.Collapsed = w == nil || !w.leader
	c.receipt.Queued = f.queued
	c.receipt.UpstreamStatus = f.upstream
	switch reader, released := c.share(f, w); {
	case f.err != nil && !released:
		c.fail(f.err)
	case f.err != nil:
		c.yield()
		c.receipt = Receipt{}
	case released || f.fleet.stored != nil && !c.takeShared(f):
		h.count.released.Add(1)
		c.receipt = Receipt{}
	case f.fleet.stored != nil:
	case f.valid != nil:
		c.serveStored(f.valid, OutcomeValidated)
	default:
		defer reader.Close()
		c.deliver(f, reader)
	}
}

// awaitHead waits until f has headers, or has failed. It reports false if the client
// left before that.
func (c *call) awaitHead(f *flight, w *joiner) bool {
	var told chan struct{}
	if w != nil {
		told = w.told
	}
	for {
		select {
		case <-f.headed:
			c.passEarly(w) // sent before the head, and so passed on before it
			return true
		case <-told:
			c.passEarly(w)
		case <-c.r.Context().Done():
			if w != nil && f.quit(w) {
				return false
			}
			<-f.headed // it is being judged
			if w != nil && w.reader != nil {
				w.reader.Close()
			}
			f.leave()
			return false
		}
	}
}

// passEarly passes on the 1xx responses that w, which may be nil, has received since the last time.
func (c *call) passEarly(w *joiner) {
	if w == nil || !w.leader {
		return
	}
	c.h.cache.mu.Lock()
	info := w.info
	w.info = nil
	c.h.cache.mu.Unlock()
	for _, e := range info {
		writeEarly(c.w, c.r, e.status, e.header)
	}
}

// share returns c's cursor, or reports that c may not use the response. A request
// that arrived after the headers is judged here, by the same rule.
func (c *call) share(f *flight, w *joiner) (r *stream.Reader, released bool) {
	if w != nil {
		return w.reader, w.released
	}
	if f.err != nil || f.fleet.stored != nil {
		return nil, false
	}
	if f.dispersed {
		return nil, true
	}
	if f.valid != nil {
		return nil, !rfc9111.MayShare(&f.valid.Response, &f.q, &c.q)
	}
	now, resp := time.Now(), f.resp
	if f.wholeOnly(c.q) {
		return nil, true
	}
	if f.events != nil {
		resp.Lifetime = f.events.lifetime(&resp, now)
	}
	st := resp.At(now, c.q)
	if !st.Fresh || !rfc9111.MayShare(&f.resp, &f.q, &c.q) {
		return nil, true
	}
	if r = f.body.Join(); r == nil {
		f.detach() // later requests are better off with a call that they can join
	}
	c.late, c.age = true, st.Age
	return r, r == nil
}

// deliver writes the response of f to c as it arrives.
func (c *call) deliver(f *flight, r *stream.Reader) {
	c.endless, c.partial = f.endless(), f.partial
	if isError(f.resp.Status) && c.mayServeStale() {
		c.serveStale(failed(f.resp.Status, f.stated))
		return
	}
	if !c.time.begins() {
		c.gone()
		return
	}
	c.receipt.Stored = f.resp.Storable
	c.receipt.TTL = f.resp.Lifetime - f.resp.Age
	if !f.resp.Storable {
		c.receipt.Detail = f.resp.Reason
	}
	outcome := OutcomeMiss
	if c.receipt.Collapsed {
		outcome = OutcomeJoined
	}
	if (c.q.Range || c.q.Conditional) && f.events == nil && f.resp.Status == http.StatusOK && c.r.Method == http.MethodGet {
		c.deliverPart(f, r, outcome)
		return
	}
	dst := c.w.Header()
	c.copyHead(f)
	if c.r.Method == http.MethodHead {
		if n := f.length; n >= 0 {
			dst["Content-Length"] = []string{strconv.FormatInt(n, 10)}
		}
		c.writeHead(outcome, f.resp.Status)
		return
	}
	c.writeHead(outcome, f.resp.Status)
	if err := c.copy(f.resp.Status, r); err != nil {
		if errors.Is(err, stream.ErrLagged) {
			if c.rest = c.restOf(f, r); c.rest != nil {
				c.stale = nil // it is too late for another response
				return
			}
		}
		c.brokenBy(err)
		return
	}
	<-f.done // the call has ended: a client that has a complete short response finds it stored
	if outcome == OutcomeJoined {
		c.h.count.costJoined.Add(uint64(f.ticket.charge.cost())) //nolint:gosec // never negative
	}
	copyTrailers(c.w, f.header, f.body.Trailer())
}

// copyHead sets the header fields of f's response. For a request that joined after
// the headers, it also sets Age (RFC 9111 section 4).
func (c *call) copyHead(f *flight) {
	copyFields(c.w.Header(), f.header)
	if c.late {
		c.w.Header()["Age"] = []string{strconv.FormatInt(int64(c.age/time.Second), 10)}
	}
}

// copy writes to the client what r returns, and flushes whenever r has no more data
// ready, unless status has no body: then the end can be in the frame of the headers. It
// returns nil at the end of a complete body.
func (c *call) copy(status int, r *stream.Reader) error {
	flusher := http.NewResponseController(c.w)
	paced := pacer{c: c}
	defer paced.close()
	if !r.Ready() && status != http.StatusNoContent && status != http.StatusNotModified {
		_ = flusher.Flush() // the headers; the body may take long
	}
	for {
		p, err := r.Next(c.r.Context())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := paced.write(p); err != nil {
			return errClient{err}
		}
		if !r.Ready() {
			_ = flusher.Flush() // without a Flush, it is sent at the end
		}
	}
}

// deliverPart waits for the complete body and evaluates the range or the condition of
// c against it. It keeps nothing of what it reads: the body that the flight keeps
// serves all of them, and counts once (H4). If that body is not kept whole, c makes its
// own call.
func (c *call) deliverPart(f *flight, r *stream.Reader, outcome Outcome) {
	var err error
	for err == nil && f.body.Kept() { // also false after the end, if it is stored by then
		_, err = r.Next(c.r.Context())
	}
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, stream.ErrLagged) {
		c.fail(err)
		return
	}
	whole, kept := f.body.Whole()
	if !kept {
		c.rounds = maxRounds
		return
	}
	<-f.done // as in deliver
	c.copyHead(f)
	c.serveContent(outcome, f.resp.Received, whole)
}

// errClient wraps a failed write to the client.
type errClient struct{ error }

// isLost reports whether err, of a write to a client, means that the client no longer
// takes the response. The alternative is that the write itself was invalid.
func isLost(err error) bool {
	return err != nil && !errors.Is(err, http.ErrContentLength) && !errors.Is(err, http.ErrBodyNotAllowed) && !errors.Is(err, http.ErrHijacked)
}

// brokenBy ends a response that cannot be completed.
func (c *call) brokenBy(err error) {
	if errors.As(err, new(errClient)) || c.r.Context().Err() != nil {
		c.h.count.leftMidway.Add(1)
	} else if errors.Is(err, stream.ErrLagged) {
		c.fellBehind(err)
	}
	c.broken(err)
}

// cutOff counts a response of c's own call, with this status, that broke off because
// of the client or of the handler. lost means that the client no longer takes it,
// which may be known before the server ends the request.
func (c *call) cutOff(status int, lost bool) {
	if lost || c.r.Context().Err() != nil {
		c.h.count.leftMidway.Add(1)
		c.h.count.abandoned.Add(1)
	} else {
		c.h.broke(status)
	}
}

// noAnswer counts c's own call that has brought no response, because of the client or
// of the handler.
func (c *call) noAnswer(err error) {
	if c.r.Context().Err() != nil || errors.Is(err, ErrSlowClient) {
		c.h.count.abandoned.Add(1)
	} else {
		c.h.failed(c.r, err)
	}
}

// broken ends a response whose headers were written, so that the client sees that it
// is incomplete (H5). It does not return.
func (c *call) broken(err error) {
	c.receipt.Err = err
	c.report(c.receipt.Outcome)
	Break(c.w, c.r)
}
