package forward

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/stop"
)

// A Forwarder relays requests to servers. RoundTrip is required.
//
// If there is no response, a weirhttp.Sink is notified; a plain ResponseWriter
// gets a 502 or 504 with Proxy-Status (RFC 9209). In either case, client errors
// such as an incomplete body get 400, 408 or 413. If the response ends early,
// ServeHTTP panics with http.ErrAbortHandler.
type Forwarder struct {
	// RoundTrip picks a server, sets the URL's scheme and host, and sends the
	// request there with a Transport. It must keep the request's context, or
	// derive its own from it: 1xx responses are returned through it.
	RoundTrip func(*http.Request) (*http.Response, error)
	// Via is the name in Via and Proxy-Status. Empty means "weir".
	Via string
	// LoopID is the name added to CDN-Loop (RFC 8586). Empty adds none.
	LoopID string
	// MaxDrain is the number of bytes of a body unwanted by the server that are
	// read and discarded to keep the client's connection. 0 means 256 KiB,
	// negative none. If the body is longer, the connection is closed; net/http
	// itself may read up to 256 KiB before that.
	MaxDrain int64
	// Trusted reports whether the peer's X-Forwarded-For, -Proto, -Host and
	// Forwarded are trusted. nil trusts no peer.
	Trusted func(*http.Request) bool
	// DropUnderscores drops request trailers whose names have an underscore. The caller drops
	// such fields: see DropForwarded.
	DropUnderscores bool
	// HidesAddress: no X-Forwarded-For is written.
	HidesAddress bool
	// Path maps the path of a request to that of the servers. What it cannot map gets 400.
	// If it strips a prefix, X-Forwarded-Prefix names that.
	Path Path
	// RemoveRequest and then SetRequest change the fields of the request, and
	// RemoveResponse and then SetResponse those of the response.
	SetRequest, SetResponse       http.Header
	RemoveRequest, RemoveResponse []string
	// IdleTimeout ends a body or a tunnel without any progress for that long. 0
	// and negative mean never.
	IdleTimeout time.Duration
	// StreamIdleTimeout is IdleTimeout for tunnels, event streams and gRPC. 0 means
	// IdleTimeout, negative never.
	StreamIdleTimeout time.Duration
	// Work is how long a server may work on a request whose client has left. For that
	// long, an HTTP/1.1 connection is watched for the server's end, which the Sink
	// learns (see weirhttp.ForwardError). Negative means 10 minutes, 0 that it is not
	// of interest: the connection is closed at once.
	Work time.Duration
}

var _ http.Handler = (*Forwarder)(nil)

// Causes for canceling a request.
var (
	errStalled = errors.New("forward: no progress for too long")
	errOver    = errors.New("forward: the request is over")
)

// errUnsendable is why a request with such a path or field is not forwarded.
var errUnsendable = errors.New("forward: the request cannot be forwarded")

// A relay forwards one request. It is also the context of that request, through
// which a Transport finds the receiver of 1xx responses.
type relay struct {
	stop.Context
	f     *Forwarder
	w     http.ResponseWriter
	r     *http.Request
	rc    http.ResponseController
	sink  weirhttp.Sink // nil if w is not a Sink
	watch watch
	out   http.Request // what is sent
	url   url.URL      // of out
	one   singles      // values of fields of out
	up    *upload      // nil if there is no body

	// What is known of the server's work after the client has left, see attempt.left.
	sent    bool
	working <-chan struct{}

	// Of a Side: the request's relay, and whether 1xx responses stop here.
	main  *relay
	quiet bool

	mu       sync.Mutex
	answered bool // guarded by mu: w is used by ServeHTTP only
}

type relayKey struct{}

func (x *relay) Value(key any) any {
	if key == (relayKey{}) {
		return x
	}
	return x.Context.Value(key)
}

// ServeHTTP forwards r and writes the response.
func (f *Forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if Reject(w, r) {
		return
	}
	x := &relay{f: f, w: w, r: r, rc: *http.NewResponseController(w)}
	x.sink = weirhttp.SinkOf(w)
	x.Start(r.Context())
	defer x.Cancel(errOver)
	x.watch.start(f.IdleTimeout, x)
	defer x.watch.stop()

	out, upgrade := x.request()
	if out.URL == nil {
		x.refuse(http.StatusBadRequest, UnmappedText, errUnsendable)
		return
	}
	if !sendable(out.Header) {
		x.refuse(http.StatusBadRequest, "a field cannot be forwarded", errUnsendable)
		return
	}
	resp, err := f.RoundTrip(out)
	x.mu.Lock()
	x.answered = true
	x.mu.Unlock()
	switch {
	case err != nil:
		x.fail(err)
		if x.sink != nil && errors.As(err, new(*fault.ElsewhereError)) {
			return // with a body that is as the client sent it
		}
	case resp.StatusCode == http.StatusSwitchingProtocols:
		x.tunnel(resp, upgrade)
	case resp.StatusCode < 200 || resp.StatusCode > 999:
		resp.Body.Close()
		x.fail(&ProtocolError{"the status of the response is out of range"})
	default:
		x.answer(resp)
	}
	x.finish()
}

// stalled is called after too long without progress.
func (x *relay) stalled() {
	x.Cancel(errStalled)
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

// interrupt ends a wait for the client's body, which delays the transport's
// report of a failure. If there is a response, drain handles the body.
func (x *relay) interrupt() {
	x.mu.Lock()
	answered := x.answered
	x.mu.Unlock()
	if x.up != nil && !answered {
		x.up.interrupt()
	}
}

// inform relays a 1xx response. HTTP/1.0 has none (RFC 9110, section 15.2).
func (x *relay) inform(code int, h http.Header) {
	if x.main != nil {
		if !x.quiet {
			x.main.inform(code, h)
		}
		return
	}
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
		for _, name := range x.f.RemoveResponse { // a field that is not for clients must not be in a 103 either
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

// answer relays a final response.
func (x *relay) answer(resp *http.Response) {
	defer resp.Body.Close()
	if x.up != nil {
		x.up.hold()
	}
	if !hasBody(resp, x.r.Method) {
		x.head(resp)
		x.begin(resp)
		return
	}
	if endless(resp.Header) {
		x.relax()
	}
	var before http.Header
	if own := x.w.Header(); len(own) > 0 {
		before = maps.Clone(own)
	}
	x.head(resp)
	begun, err := x.copyBody(resp)
	switch {
	case err == nil:
		x.trailers(resp)
	case begun:
		x.Cancel(err)
		x.abort()
	default: // the client can still get another response
		h := x.w.Header()
		clear(h)
		maps.Copy(h, before)
		x.fail(err)
	}
}

// begin writes the head that x.head has set.
func (x *relay) begin(resp *http.Response) {
	if x.sink != nil && (closeDelimited(resp, x.r.Method) || untidy(resp)) {
		x.sink.CloseDelimited()
	}
	x.w.WriteHeader(resp.StatusCode)
}

// relax applies the idle timeout of streams to x.
func (x *relay) relax() {
	if d := x.f.StreamIdleTimeout; d != 0 {
		x.watch.relax(d)
	}
}

// head sets the header fields of w.
func (x *relay) head(resp *http.Response) {
	h := x.w.Header()
	if len(resp.Header[RequestID]) > 0 {
		delete(h, RequestID) // it replaces the one that a handler in front has set
	}
	copyEndToEnd(h, resp.Header)
	h["Via"] = append(slices.Clip(h["Via"]), x.f.via(resp.ProtoMajor, resp.ProtoMinor))
	if x.sink == nil && resp.StatusCode == http.StatusNotModified && x.r.ProtoMajor == 1 {
		spare304(h)
	}
	if resp.StatusCode == http.StatusNoContent {
		delete(h, "Content-Length") // RFC 9110, section 8.6
	}
	x.f.changeResponse(h)
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil // otherwise net/http would guess one
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
		delete(h, "Content-Length") // only chunks can be followed by trailers
	}
}

// changeResponse applies f's changes to the fields of a final response, including
// a 101.
func (f *Forwarder) changeResponse(h http.Header) {
	for _, name := range f.RemoveResponse {
		h.Del(name)
	}
	for name, values := range f.SetResponse {
		h[http.CanonicalHeaderKey(name)] = values
	}
}

// spare304 keeps two fields of a 304 that net/http's server would drop. It
// recognizes them only in their usual spelling.
func spare304(h http.Header) {
	for name, spared := range map[string]string{"Content-Type": "content-type", "Content-Length": "content-length"} {
		if v := h[name]; len(v) > 0 {
			delete(h, name)
			h[spared] = v
		}
	}
}

// trailers sets the trailers that followed the body.
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
			x.rc.Flush() // a short body in one buffer would get a Content-Length
			h[http.TrailerPrefix+name] = values
		}
	}
}

// buffers holds the buffers for copying bodies.
var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// headDelay is how long the header waits for the first bytes of the body, to be
// sent together.
const headDelay = time.Millisecond

// copyBody relays the body. It flushes after a read that did not fill the buffer.
// heldBack is how much of a body is held back, for headDelay at most, until it is known whether
// the server goes on: a server that dies after the head and some bytes is a 502 until then.
const heldBack = 2 << 10

// copyBody writes the head and relays the body. begun reports whether the head was written.
func (x *relay) copyBody(resp *http.Response) (begun bool, err error) {
	buffer := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(buffer)
	if size := resp.ContentLength; x.sink != nil && size >= 0 && size <= int64(min(buffered(resp), len(buffer))) {
		n, err := io.ReadFull(resp.Body, buffer[:size]) // the complete body is buffered
		if err != nil {
			return false, err
		}
		x.begin(resp)
		_, err = x.w.Write(buffer[:n])
		return true, err
	}
	x.watch.begin()
	defer x.watch.end()
	n, err := x.beginning(resp, buffer[:])
	if n < 0 {
		return false, err
	}
	for {
		x.watch.moved()
		if n > 0 {
			if werr := x.write(buffer[:n]); werr != nil {
				return true, werr
			}
		}
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return true, err
		}
		if n < len(buffer) {
			x.rc.Flush()
		}
		n, err = resp.Body.Read(buffer[:])
	}
}

// beginning writes the head, and returns as Read does: how many bytes of p are still to be
// written, and how reading ended. It waits for the first bytes, but not for long. If the body
// breaks before the head is written, it returns -1.
func (x *relay) beginning(resp *http.Response, p []byte) (n int, err error) {
	if eventStream(resp.Header) {
		x.begin(resp)
		x.rc.Flush()
		return resp.Body.Read(p)
	}
	for start := time.Now(); n < heldBack && err == nil; {
		var m int
		if n == 0 && buffered(resp) > 0 { // it does not block
			n, err = resp.Body.Read(p)
			continue
		}
		var panicked any
		sent, held := make(chan struct{}), p[:n]
		timer := time.AfterFunc(headDelay-time.Since(start), func() {
			defer close(sent)
			defer func() { panicked = recover() }() // it belongs to the request's goroutine
			x.begin(resp)
			if len(held) > 0 {
				_, _ = x.w.Write(held) // the next Write reports it
			}
			x.rc.Flush()
		})
		m, err = resp.Body.Read(p[n:])
		if !timer.Stop() {
			if <-sent; panicked != nil {
				panic(panicked)
			}
			copy(p, p[n:n+m])
			return m, err
		}
		n += m
	}
	if err != nil && err != io.EOF {
		return -1, err
	}
	x.begin(resp)
	return n, err
}

// buffered returns how many bytes of a body of known length can be read without
// blocking, as far as that is known. For chunks it is 0, because the buffered
// bytes may be only a chunk's size, without data.
func buffered(resp *http.Response) int {
	if b, ok := resp.Body.(interface{ Buffered() int }); ok && resp.ContentLength >= 0 {
		return b.Buffered()
	}
	return 0
}

// write writes p. The idle timeout does not count the time that a Sink takes.
func (x *relay) write(p []byte) error {
	if x.sink != nil {
		x.watch.end()
		defer x.watch.begin()
	}
	_, err := x.w.Write(p)
	x.watch.moved()
	return err
}

// abort ends the response early.
func (x *relay) abort() {
	if x.up != nil {
		x.up.leave()
	}
	if x.sink != nil {
		panic(http.ErrAbortHandler)
	}
	weirhttp.Break(x.w, x.r)
}

// finish handles the rest of the client's body. The response was sent by then,
// except for a final chunk, which net/http writes at the very end.
func (x *relay) finish() {
	x.Cancel(errOver)
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

// maxDrain returns the limit in bytes, -1 for no draining.
func (f *Forwarder) maxDrain() int64 {
	if f.MaxDrain == 0 {
		return 256 << 10
	}
	return max(f.MaxDrain, -1)
}
