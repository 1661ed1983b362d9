package forward

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A Forwarder relays requests to servers. RoundTrip is required.
//
// It tells a weirhttp.Sink that there is no answer; a plain ResponseWriter gets
// a 502 or 504 with Proxy-Status (RFC 9209). What is the client's own fault, such
// as a body that breaks off, is answered with 400, 408 or 413 in either case. An
// answer that breaks off panics with http.ErrAbortHandler.
type Forwarder struct {
	// RoundTrip picks a server, sets the URL's scheme and host, and sends the
	// request there by a Transport. It keeps the request's context, or the parent
	// of its own: answers 1xx come back by it.
	RoundTrip func(*http.Request) (*http.Response, error)
	// Via is the name in Via and Proxy-Status. Empty means "weir".
	Via string
	// LoopID is the name that CDN-Loop gets (RFC 8586). Empty adds none.
	LoopID string
	// MaxDrain is how much of a body that the server did not want is read and
	// thrown away to keep the client's connection. 0 means 256 KiB, negative
	// none. After more than that the connection is closed; net/http may read as
	// much as 256 KiB of its own before it does.
	MaxDrain int64
	// Trusted reports whether the peer's X-Forwarded-For, -Proto, -Host and
	// Forwarded are believed. nil believes nobody.
	Trusted func(*http.Request) bool
	// RemoveRequest and SetRequest change the request's fields on the way up, in
	// this order, RemoveResponse and SetResponse the answer's on the way down.
	SetRequest, SetResponse       http.Header
	RemoveRequest, RemoveResponse []string
	// IdleTimeout ends a body or a tunnel in which nothing moves. 0 and negative
	// mean never.
	IdleTimeout time.Duration
	// StreamIdleTimeout is IdleTimeout for tunnels, event streams and gRPC. 0 means
	// IdleTimeout, negative never.
	StreamIdleTimeout time.Duration
}

var _ http.Handler = (*Forwarder)(nil)

// Causes with which a request is canceled.
var (
	errStalled = errors.New("forward: nothing moved for too long")
	errOver    = errors.New("forward: the request is over")
)

// A relay is one request on its way. It is also the context of that request,
// from which a Transport learns whom to tell of answers 1xx.
type relay struct {
	context.Context
	f      *Forwarder
	w      http.ResponseWriter
	r      *http.Request
	rc     *http.ResponseController
	sink   weirhttp.Sink // nil if w is none
	cancel context.CancelCauseFunc
	watch  watch
	up     *upload // nil if there is no body

	mu       sync.Mutex
	answered bool // guarded by mu: w belongs to ServeHTTP alone
}

type relayKey struct{}

func (x *relay) Value(key any) any {
	if key == (relayKey{}) {
		return x
	}
	return x.Context.Value(key)
}

// ServeHTTP forwards r and answers it.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if Reject(w, r) {
		return
	}
	x := &relay{f: f, w: w, r: r, rc: http.NewResponseController(w)}
	x.sink = weirhttp.SinkOf(w)
	x.Context, x.cancel = context.WithCancelCause(r.Context())
	defer x.cancel(errOver)
	x.watch.start(f.IdleTimeout, x.stalled)
	defer x.watch.stop()

	out, upgrade := x.request()
	if !sendable(out.Header) {
		refuse(w, r, http.StatusBadRequest, "a field cannot be forwarded")
		return
	}
	resp, err := f.RoundTrip(out)
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	switch {
	case err != nil:
		x.fail(err)
	case resp.StatusCode == http.StatusSwitchingProtocols:
		x.tunnel(resp, upgrade)
	case resp.StatusCode < 200 || resp.StatusCode > 999:
		resp.Body.Close()
		x.fail(&ProtocolError{"the answer's status is out of range"})
	default:
		x.answer(resp)
	}
	x.finish()
}

// stalled is called when nothing has moved for too long.
func (x *relay) stalled() {
	x.cancel(errStalled)
	if x.up != nil {
		x.up.interrupt()
	}
	x.mu.Lock()
	answered := x.answered
	x.mu.Unlock()
	if answered && x.sink == nil {
		x.rc.SetWriteDeadline(past)
	}
}

// interrupt ends a wait for the client's body, on which the transport's report of
// a failure waits. When there is an answer, drain sees to the body.
func (x *relay) interrupt() {
	x.mu.Lock()
	answered := x.answered
	x.mu.Unlock()
	if x.up != nil && !answered {
		x.up.interrupt()
	}
}

// inform relays an answer 1xx. HTTP/1.0 knows none (RFC 9110, section 15.2).
func (x *relay) inform(code int, h http.Header) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.answered {
		return
	}
	if x.r.ProtoAtLeast(1, 1) && code < 200 && code != http.StatusSwitchingProtocols {
		own := x.w.Header()
		kept := maps.Clone(own)
		clear(own)
		copyEndToEnd(own, h)
		for _, name := range x.f.RemoveResponse { // what is not for clients is not in a 103 either
			own.Del(name)
		}
		x.w.WriteHeader(code)
		clear(own)
		maps.Copy(own, kept)
	}
	if code == http.StatusContinue && x.up != nil {
		x.up.open()
	}
}

// answer relays a final answer.
func (x *relay) answer(resp *http.Response) {
	defer resp.Body.Close()
	if x.up != nil {
		x.up.hold()
	}
	x.head(resp)
	if x.sink != nil && closeDelimited(resp, x.r.Method) {
		x.sink.CloseDelimited()
	}
	x.w.WriteHeader(resp.StatusCode)
	if !hasBody(resp, x.r.Method) {
		return
	}
	if endless(resp.Header) {
		x.relax()
	}
	if err := x.copyBody(resp); err != nil {
		x.cancel(err)
		x.abort()
	}
	x.trailers(resp)
}

// relax has x watched as a stream.
func (x *relay) relax() {
	if d := x.f.StreamIdleTimeout; d != 0 {
		x.watch.relax(d)
	}
}

// head fills in w's header.
func (x *relay) head(resp *http.Response) {
	h := x.w.Header()
	copyEndToEnd(h, resp.Header)
	h["Via"] = append(slices.Clip(h["Via"]), x.f.via(resp.ProtoMajor, resp.ProtoMinor))
	if x.sink == nil && resp.StatusCode == http.StatusNotModified && x.r.ProtoMajor == 1 {
		spare304(h)
	}
	x.f.changeResponse(h)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // or net/http makes one up
	}
	delete(h, "Trailer")
	if len(resp.Trailer) == 0 || !x.r.ProtoAtLeast(1, 1) {
		return
	}
	for name := range resp.Trailer {
		if inTrailers(name) {
			h["Trailer"] = append(h["Trailer"], name)
		}
	}
	if x.r.ProtoMajor == 1 && x.r.Method != http.MethodHead {
		delete(h, "Content-Length") // trailers follow chunks only
	}
}

// changeResponse makes the changes of f to the fields of a final response, also
// of one that switches protocols.
func (f *Forwarder) changeResponse(h http.Header) {
	for _, name := range f.RemoveResponse {
		h.Del(name)
	}
	for name, values := range f.SetResponse {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// spare304 keeps two fields of a 304 that net/http's server would drop, which it
// knows by their usual spelling only.
func spare304(h http.Header) {
	for name, spared := range map[string]string{"Content-Type": "content-type", "Content-Length": "content-length"} {
		if v := h[name]; len(v) > 0 {
			delete(h, name)
			h[spared] = v
		}
	}
}

// trailers fills in what has come after the body.
func (x *relay) trailers(resp *http.Response) {
	if len(resp.Trailer) == 0 || !x.r.ProtoAtLeast(1, 1) {
		return
	}
	h := x.w.Header()
	announced := h["Trailer"]
	for name, values := range resp.Trailer {
		switch {
		case !inTrailers(name) || len(values) == 0:
		case slices.Contains(announced, name):
			h[name] = values
		default:
			x.rc.Flush() // what fits into one buffer would get a Content-Length
			h[http.TrailerPrefix+name] = values
		}
	}
}

// A buffer is what bodies are copied through.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// headDelay is how long the head of an answer waits for the body's beginning,
// to go out with it.
const headDelay = time.Millisecond

// copyBody relays the body. It flushes when a read has left nothing behind, as
// far as its length shows. The error is the server's or the client's.
func (x *relay) copyBody(resp *http.Response) error {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	if size := resp.ContentLength; x.sink != nil && size >= 0 && size <= int64(min(buffered(resp), len(buffer))) {
		n, err := io.ReadFull(resp.Body, buffer[:size]) // all of it is here
		if err == nil {
			_, err = x.w.Write(buffer[:n])
		}
		return err
	}
	x.watch.begin()
	defer x.watch.end()
	n, err := x.firstRead(resp, buffer[:])
	for {
		x.watch.moved()
		if n > 0 {
			if werr := x.write(buffer[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if n < len(buffer) {
			x.rc.Flush()
		}
		n, err = resp.Body.Read(buffer[:])
	}
}

// buffered returns how much of a body of known length can be read without blocking, as far as
// that is known. It is 0 for chunks: the bytes at hand may be the size of one and none of its
// data.
func buffered(resp *http.Response) int {
	if b, ok := resp.Body.(interface{ Buffered() int }); ok && resp.ContentLength >= 0 {
		return b.Buffered()
	}
	return 0
}

// write writes p. How long a Sink takes is its own business.
func (x *relay) write(p []byte) error {
	if x.sink != nil {
		x.watch.end()
		defer x.watch.begin()
	}
	_, err := x.w.Write(p)
	x.watch.moved()
	return err
}

// firstRead reads the beginning of the body, and sends the head ahead if that
// takes its time.
func (x *relay) firstRead(resp *http.Response, p []byte) (int, error) {
	if eventStream(resp.Header) {
		x.rc.Flush()
		return resp.Body.Read(p)
	}
	if buffered(resp) > 0 {
		return resp.Body.Read(p)
	}
	sent := make(chan struct{})
	timer := time.AfterFunc(headDelay, func() {
		defer close(sent)
		x.rc.Flush()
	})
	n, err := resp.Body.Read(p)
	if !timer.Stop() {
		<-sent
	}
	return n, err
}

// abort breaks the answer off.
func (x *relay) abort() {
	if x.up != nil {
		x.up.leave()
	}
	if x.sink != nil {
		panic(http.ErrAbortHandler)
	}
	weirhttp.Break(x.w, x.r)
}

// finish sees to what is left of the client's body. The answer is on its way by
// then, but for a final chunk, which net/http writes when all is over.
func (x *relay) finish() {
	x.cancel(errOver)
	if x.up == nil || x.up.done() {
		return
	}
	x.rc.Flush()
	limit := x.f.maxDrain()
	if x.w.Header().Get("Connection") == "close" {
		limit = -1
	}
	if !x.up.drain(limit) {
		closeAfterReply(x.w)
	}
}

// maxDrain returns the limit in bytes, -1 for none at all.
func (f *Forwarder) maxDrain() int64 {
	if f.MaxDrain == 0 {
		return 256 << 10
	}
	return max(f.MaxDrain, -1)
}
