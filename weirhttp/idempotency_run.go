package weirhttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/once"
)

// runOnce starts the call of a run, which c leads, and returns what will have its response.
// The call belongs to no client, and ends at the time-outs of the route. If its response is
// streamed, and the client has left, it has Options.HeadTimeout to end. It owns held.
func (c *call) runOnce(run *once.Run, held *heldBody, came time.Time, turn uint64) *recorder {
	h := c.h
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.r.Context()), h.once.TTL)
	stop := context.AfterFunc(h.open, cancel)
	req := c.r.Clone(ctx)
	body := newReadBody(held.bytes)
	req.Body, req.ContentLength, req.TransferEncoding = body, int64(len(held.bytes)), nil
	q := c.q
	q.Fields = req.Header
	q.From(req)
	rec := &recorder{h: h, run: run, header: http.Header{}, spilled: make(chan struct{}), informed: make(chan struct{}, 1), method: req.Method, ctx: ctx, cancel: cancel}
	go func() {
		defer cancel()
		defer stop()
		defer held.release()
		defer rec.end() // also after runtime.Goexit
		defer func() {
			if v := recover(); v != nil && rec.err == nil { // the Handler has reported it
				rec.err = errBroken
			}
		}()
		h.pass(rec, req, q, came, turn, c.bypass, "")
		rec.returned = true
	}()
	return rec
}

// claimOnce makes the claim of the call that w records durable, if w records one. It is called
// directly before the call is made, and before another one by a Fallback.
func claimOnce(ctx context.Context, w http.ResponseWriter) error {
	if rec, ok := w.(*recorder); ok && !rec.run.Claimed() {
		return rec.run.Claim(ctx)
	}
	return nil
}

// A recorder is the ResponseWriter of a call that runs at most once: it keeps the response,
// and decides at the end of the call what is known of it. Of a response that is too large
// to keep it first records that the call has run, and then streams it to the client that
// leads.
type recorder struct {
	h        *Handler
	run      *once.Run
	method   string
	ctx      context.Context // of the call
	cancel   context.CancelFunc
	header   http.Header
	receipt  Receipt
	answer   once.Record
	fin      bool // the end of the body looks like a break
	returned bool
	err      error // instead of a response

	spilled chan struct{} // closed once the response is streamed
	pipe    *io.PipeReader
	stream  *io.PipeWriter // nil unless it is streamed

	informed chan struct{} // has a value if there is something in info

	mu   sync.Mutex
	left bool    // the client that leads has left; guarded by mu
	info []early // 1xx responses that it has not received; guarded by mu
}

// Header implements [http.ResponseWriter].
func (rec *recorder) Header() http.Header { return rec.header }

// SetReceipt implements [ReceiptWriter].
func (rec *recorder) SetReceipt(r Receipt) { rec.receipt = r }

// takeError takes an error instead of a response, see call.answer.
func (rec *recorder) takeError(err error) {
	if errors.Is(err, errAborted) {
		err = errBroken // nothing was sent to a client yet, so it gets a response
	}
	rec.err = err
}

// Flush implements [http.Flusher]: there is nothing to flush.
func (rec *recorder) Flush() {}

// WriteHeader implements [http.ResponseWriter].
func (rec *recorder) WriteHeader(status int) {
	if status < 200 {
		rec.inform(status)
		return
	}
	if rec.answer.Status != 0 {
		return
	}
	rec.answer.Status = status
	own := maps.Clone(relayed(rec.header))
	if lines := own["Cache-Status"]; len(lines) > 0 && !rec.h.o.NoReceipt { // each request gets its own line, which is the last
		if own["Cache-Status"] = lines[:len(lines)-1]; len(lines) == 1 {
			delete(own, "Cache-Status")
		}
	}
	if rec.h.o.RequestID != "" {
		delete(own, rec.h.o.RequestID) // as above
	}
	for name, lines := range own {
		if lines == nil && name != "Content-Type" {
			delete(own, name)
		} else {
			own[name] = slices.Clone(lines)
		}
	}
	rec.answer.Header = own
	if isStream(own) || isGRPC(own) {
		rec.spill("the response is a stream")
	} else if rec.fin && hasBody(status) && rec.method != http.MethodHead {
		rec.spill("the end of the response looks like a break")
	} else if n, err := strconv.ParseInt(own.Get("Content-Length"), 10, 64); err == nil && rec.method != http.MethodHead && n > rec.room() {
		rec.spill("the response is too large to keep")
	}
}

// inform keeps a 1xx response, which has the fields in rec.header, for the client that leads.
// It is not a part of what is stored: it has no meaning for a request that comes later.
func (rec *recorder) inform(status int) {
	if status == http.StatusSwitchingProtocols || rec.answer.Status != 0 {
		return
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.left || len(rec.info) >= mostEarly {
		return
	}
	rec.info = append(rec.info, early{status, rec.header.Clone()})
	select {
	case rec.informed <- struct{}{}:
	default: // the client has not taken the earlier ones yet
	}
}

// passEarlyOf sends c the 1xx responses of the call that it leads, those that it has not received.
func (c *call) passEarlyOf(rec *recorder) {
	rec.mu.Lock()
	info := rec.info
	rec.info = nil
	rec.mu.Unlock()
	for _, e := range info {
		writeEarly(c.w, c.r, e.status, e.header)
	}
}

// room returns how long the body can be if the response is to be kept.
func (rec *recorder) room() int64 {
	room := rec.h.once.MaxResponse
	for name, lines := range rec.answer.Header {
		for _, line := range lines {
			room -= int64(len(name) + len(line) + 8)
		}
	}
	return room
}

// Write implements [http.ResponseWriter].
func (rec *recorder) Write(p []byte) (int, error) {
	rec.WriteHeader(http.StatusOK)
	if rec.stream == nil && int64(len(rec.answer.Body)+len(p)) > rec.room() {
		rec.spill("the response is too large to keep")
	}
	if rec.stream != nil {
		_, _ = rec.stream.Write(p) // without a client, the rest is dropped: the call goes on
		return len(p), nil
	}
	rec.answer.Body = append(rec.answer.Body, p...)
	return len(p), nil
}

// spill records what is known of a call whose response is not kept, ends the run for the
// requests that wait, and begins to stream the response to the client that leads.
func (rec *recorder) spill(reason string) {
	var err error
	unknown := ""
	switch status := rec.answer.Status; rec.says() {
	case saysNotDone:
		err = rec.run.Free()
	case saysNothing:
		unknown = reasonStatus(status)
		err = rec.run.Doubt(unknown)
	default:
		err = rec.run.Finish(reason)
	}
	pipe, stream := io.Pipe()
	rec.mu.Lock()
	rec.pipe, rec.stream = pipe, stream
	if rec.left || err != nil {
		_ = pipe.Close()
	}
	if err == nil { // no client may see the response before it is durable that there is one
		close(rec.spilled)
	}
	if rec.left || err != nil {
		rec.abandon()
	}
	rec.mu.Unlock()
	rec.tell(unknown, err)
	if err != nil {
		rec.err = &unsureError{errUnknown, once.ReasonNotKept}
		rec.run.End(&recorder{err: rec.err})
		return
	}
	rec.run.End(nil) // the others begin anew, and find what is recorded
	if body := rec.answer.Body; len(body) > 0 {
		rec.answer.Body = nil
		_, _ = stream.Write(body) // as in Write
	}
}

// leave is called when the client that leads leaves. It may be called again.
func (rec *recorder) leave() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.left {
		return
	}
	rec.left = true
	select {
	case <-rec.spilled:
		_ = rec.pipe.Close()
		rec.abandon()
	default:
	}
}

// abandon bounds the rest of a call whose outcome is recorded and whose response is for no
// client any more: it has a permit, and its body in memory. Without a HeadTimeout it has none.
func (rec *recorder) abandon() {
	if wait := rec.h.o.HeadTimeout; wait > 0 {
		t := time.AfterFunc(wait, rec.cancel)
		context.AfterFunc(rec.ctx, func() { t.Stop() })
	}
}

// stream sends the response of a call, which is not kept, to c, which leads it.
func (c *call) stream(rec *recorder) error {
	defer rec.leave()
	c.passEarlyOf(rec)
	stop := context.AfterFunc(c.r.Context(), rec.leave)
	defer stop()
	c.endless = isStream(rec.answer.Header)
	c.receipt.UpstreamStatus, c.receipt.Fallback, c.receipt.FallbackReason = rec.answer.Status, rec.receipt.Fallback, rec.receipt.FallbackReason
	copyFields(c.w.Header(), rec.answer.Header)
	c.writeHead(OutcomePass, rec.answer.Status)
	flusher := http.NewResponseController(c.w)
	buf := make([]byte, 32<<10)
	for {
		n, err := rec.pipe.Read(buf)
		if n > 0 {
			if _, werr := c.w.Write(buf[:n]); werr != nil {
				return nil
			}
			_ = flusher.Flush() // without a Flusher, it is sent at the end
		}
		if err == io.EOF {
			copyTrailers(c.w, rec.answer.Header, rec.answer.Trailer)
			return nil
		}
		if err != nil {
			Break(c.w, c.r)
		}
	}
}

func reasonStatus(status int) string {
	return "the server responded with status " + strconv.Itoa(status)
}

// A verdict is how a server speaks, in the head of a response, of the work that was requested.
type verdict uint8

const (
	saysDone    verdict = iota // it has an outcome
	saysNotDone                // it has not done it
	saysNothing                // it has failed
)

// says returns what the server says. Statuses in Keep are outcomes.
func (rec *recorder) says() verdict {
	status := rec.answer.Status
	switch {
	case frees(status, rec.answer.Header.Get("Retry-After") != ""):
		if slices.Contains(rec.h.once.Keep, status) {
			return saysDone
		}
		return saysNotDone
	case status >= 500:
		return saysNothing
	}
	return saysDone
}

// whole reports whether the response is as long as it says.
func (rec *recorder) whole() bool {
	switch rec.answer.Status {
	case 0:
		return false
	case http.StatusNoContent, http.StatusNotModified:
		return true
	}
	n, err := strconv.ParseInt(rec.answer.Header.Get("Content-Length"), 10, 64)
	return err != nil || n == int64(len(rec.answer.Body))
}

// end decides what is known of the call, makes that durable, and lets the requests that
// wait have the response.
func (rec *recorder) end() {
	run := rec.run
	if !rec.returned {
		rec.err = cmp.Or(rec.err, errBroken)
	}
	rec.trailers()
	if rec.stream != nil {
		_ = rec.stream.CloseWithError(rec.err) // nil is io.EOF. The run has ended
		return
	}
	if errors.Is(rec.err, once.ErrConflict) && !run.Claimed() {
		run.End(nil) // another process has taken the key: the requests begin anew, and wait for it
		return
	}
	if rec.err == nil && !rec.whole() {
		rec.err = errShort
	}
	var err error
	unknown := ""
	switch says := rec.says(); {
	case rec.err != nil && notSent(rec.err):
		err = run.Free()
	case rec.err != nil:
		unknown = "no complete response"
		err = run.Doubt(unknown)
	case says == saysNotDone:
		err = run.Free()
	case says == saysNothing:
		unknown = reasonStatus(rec.answer.Status)
		err = run.Doubt(unknown)
	default:
		if err = run.Answer(rec.answer); err != nil {
			_ = run.Doubt(once.ReasonNotKept) // if this fails too, the claim tells it
			rec.err = &unsureError{errUnknown, once.ReasonNotKept}
		}
	}
	rec.tell(unknown, err)
	if rec.err == nil && rec.answer.Header["Content-Length"] == nil && len(rec.answer.Trailer) == 0 && hasBody(rec.answer.Status) {
		rec.answer.Header["Content-Length"] = []string{strconv.Itoa(len(rec.answer.Body))}
	}
	run.End(rec)
}

// tell reports an unknown outcome of the call, for a recorded reason, or because the Store
// has failed with err.
func (rec *recorder) tell(reason string, err error) {
	if !rec.run.Claimed() || reason == "" && err == nil {
		return
	}
	call := rec.run.Call()
	rec.h.event(Event{Kind: EventUnknown, Err: &UnknownOutcomeError{
		ID: call.ID, Call: call.Name, Reason: cmp.Or(reason, once.ReasonNotKept), Err: err,
	}})
}

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// trailers collects the trailers of the response.
func (rec *recorder) trailers() {
	add := func(name string, lines []string) {
		if len(lines) > 0 {
			if rec.answer.Trailer == nil {
				rec.answer.Trailer = http.Header{}
			}
			rec.answer.Trailer[name] = slices.Clone(lines)
		}
	}
	for k, lines := range rec.header {
		if name, ok := cutTrailerPrefix(k); ok {
			add(name, lines)
		}
	}
	for _, name := range announced(rec.answer.Header) {
		add(http.CanonicalHeaderKey(name), rec.header[http.CanonicalHeaderKey(name)])
	}
}

// notSent reports whether err means that nothing of the request was sent to the server, or
// that the server has said that it has not begun with it.
func notSent(err error) bool {
	var forward *ForwardError
	return errors.Is(err, limit.ErrLimited) || errors.As(err, &forward) && (forward.Unreachable || forward.Unavailable || forward.NotRun)
}
