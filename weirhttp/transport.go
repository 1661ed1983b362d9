package weirhttp

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/option"
)

// A Transport does for clients of a slow service what a Handler does for the service:
// requests of one program share responses, under the same rules. Create one with
// [NewTransport], and give it to an http.Client. It is safe for concurrent use.
//
// RoundTrip returns an error where a Handler would generate an error response: a
// *limit.Error, or a failure of the transport below. The body of a response must be
// closed. Until it is closed or read to its end, its request counts as waiting.
//
// Requests with Authorization or Cookie share nothing, unless their responses have
// public or s-maxage: all users of a program may be behind one Transport. For the
// client of one user, or of an API with tokens, see [NewPrivateTransport].
type Transport struct {
	h    *Handler
	base http.RoundTripper
}

// NewTransport returns a Transport over base; nil means http.DefaultTransport. The
// error is like that of [New].
func NewTransport(base http.RoundTripper, o Options) (*Transport, error) {
	return newTransport(base, o, false)
}

func newTransport(base http.RoundTripper, o Options, private bool) (*Transport, error) {
	if base == nil {
		base = http.DefaultTransport
	}
	f := option.Faults{Package: "weirhttp", Prefix: "Options."}
	if !f.Check(o.Idempotency == nil, "Idempotency", "set", "nil for a Transport") {
		return nil, f.Err()
	}
	if o.Scheme == nil {
		o.Scheme = func(r *http.Request) string { return r.URL.Scheme }
	}
	// A client that reads events has its own context, and no proxy in between would
	// keep a connection open for nothing.
	o.StreamIdleTimeout = cmp.Or(o.StreamIdleTimeout, o.IdleTimeout, DefaultStreamIdle)
	o.Clients, o.Fallback = noClientLimits, nil
	h, err := newHandler(sender{base}, o, private)
	if err != nil {
		return nil, err
	}
	return &Transport{h, base}, nil
}

// Stats returns a snapshot.
func (t *Transport) Stats() Stats { return t.h.Stats() }

// Alone returns why requests share nothing, in a snapshot.
func (t *Transport) Alone() AloneStats { return t.h.Alone() }

// Explain is Handler.Explain for a request of a client.
func (t *Transport) Explain(r *http.Request) Explanation {
	return t.h.Explain(received(named(r), r.Context()))
}

// Close is Handler.Close: it ends the calls in flight, including those in the
// background.
func (t *Transport) Close(ctx context.Context) error { return t.h.Close(ctx) }

// Drain stops background refreshes, as [Handler.Drain] does.
func (t *Transport) Drain(ctx context.Context) error { return t.h.Drain(ctx) }

// CloseIdleConnections closes the idle connections of the transport below, if it
// supports that.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := named(r)
	if sent.Header["Upgrade"] != nil {
		return t.upgrade(t.h.query.applyTo(sent))
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	body, w := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(wait.Cause(ctx)) })
	a := &arrival{header: make(http.Header), headed: make(chan struct{}), body: w, failed: make(chan struct{})}
	go func() {
		defer cancel(nil)
		defer stop()
		if r.Body != nil {
			defer r.Body.Close() // in all cases, as RoundTripper demands
		}
		a.run(t.h, received(sent, ctx))
	}()
	select {
	case <-a.failed:
		_ = w.Close()
		return nil, a.err
	case <-a.headed:
	}
	a.resp.Request = r
	a.resp.Body = &arrived{PipeReader: body, leave: cancel}
	return a.resp, nil
}

// named returns r with canonical field names, and usually r itself. A transport sends
// "authorization" as it is in the map, but the cache would not see it.
func named(r *http.Request) *http.Request {
	if isCanonical(r.Header) {
		return r
	}
	out := *r
	out.Header = canonicalFields(r.Header)
	return &out
}

// received returns a client's request as a server would receive it.
func received(r *http.Request, ctx context.Context) *http.Request {
	in := r.Clone(ctx)
	if in.Host == "" {
		in.Host = r.URL.Host
	}
	if in.Header == nil {
		in.Header = make(http.Header)
	}
	if in.ContentLength == 0 && in.Body != nil && in.Body != http.NoBody {
		in.ContentLength = -1 // on a client's request, 0 means unknown
	}
	return in
}

// errLeft is the cause of the end of a request whose response body was closed.
var errLeft = errors.New("weirhttp: the body of the response was closed")

// arrived is the body of a response.
type arrived struct {
	*io.PipeReader
	leave context.CancelCauseFunc
}

// Close leaves the call if it is still running.
func (b *arrived) Close() error {
	b.leave(errLeft)
	return b.PipeReader.CloseWithError(errLeft)
}

// An arrival is a ResponseWriter that builds an http.Response.
type arrival struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once

	headed chan struct{} // closed once resp is set
	resp   *http.Response
	failed chan struct{} // closed once err is set instead
	err    error
}

// run lets h respond to r.
func (a *arrival) run(h *Handler, r *http.Request) {
	defer func() {
		if v := recover(); v != nil && v != http.ErrAbortHandler { //nolint:errorlint // it is panicked with as it is
			panic(v)
		} else if v != nil {
			err := io.ErrUnexpectedEOF
			if r.Context().Err() != nil {
				err = context.Cause(r.Context())
			}
			a.end(err)
		}
	}()
	h.ServeHTTP(a, r)
	if a.resp == nil && r.Context().Err() != nil {
		a.takeError(context.Cause(r.Context()))
		return
	}
	a.WriteHeader(http.StatusOK) // if nothing was written
	a.end(nil)
}

// end ends the body.
func (a *arrival) end(err error) {
	if a.resp == nil {
		a.takeError(err)
		return
	}
	if len(a.resp.Trailer) > 0 || err == nil {
		for k, v := range a.header {
			if name, ok := cutTrailerPrefix(k); ok {
				a.resp.Trailer[name] = v
			}
		}
		for name := range a.resp.Trailer {
			if v, ok := a.header[name]; ok {
				a.resp.Trailer[name] = v
			}
		}
	}
	_ = a.body.CloseWithError(err)
}

// takeError takes an error instead of a response.
func (a *arrival) takeError(err error) {
	a.once.Do(func() {
		a.err = err
		close(a.failed)
	})
}

func (a *arrival) Header() http.Header { return a.header }

func (a *arrival) WriteHeader(status int) {
	if status < 200 {
		return // http.Client has no use for it
	}
	a.once.Do(func() {
		h := a.header.Clone()
		for k, v := range h {
			if v == nil {
				delete(h, k) // as in a server
			}
		}
		resp := &http.Response{
			Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status,
			Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: h, ContentLength: -1, Trailer: make(http.Header),
		}
		if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil {
			resp.ContentLength = n
		}
		for _, name := range announced(h) {
			resp.Trailer[name] = nil
		}
		delete(h, "Trailer")
		a.resp = resp
		close(a.headed)
	})
}

func (a *arrival) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// Flush implements [http.Flusher]: there is nothing to flush.
func (a *arrival) Flush() {}

// A sender adapts a RoundTripper to http.Handler.
type sender struct{ base http.RoundTripper }

func (s sender) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sink := SinkOf(w)
	if sink == nil {
		panic("weirhttp: a sender works behind a Handler only")
	}
	out := r.Clone(r.Context())
	out.RequestURI = ""
	resp, err := s.base.RoundTrip(out)
	if err != nil {
		var op *net.OpError
		switch dial := errors.As(err, &op) && op.Op == "dial"; {
		case dial:
			err = &ForwardError{Err: err, Unreachable: true}
		case r.Context().Err() != nil:
			err = &ForwardError{Err: err, Sent: true}
		}
		sink.Fail(err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 999 {
		sink.Fail(errUnasked(resp.StatusCode))
		return
	}
	h := w.Header()
	copyFields(h, resp.Header)
	declared := make(map[string]bool, len(resp.Trailer))
	for name := range resp.Trailer {
		h.Add("Trailer", name)
		declared[name] = true
	}
	if resp.ContentLength >= 0 && h.Get("Content-Length") == "" && !resp.Uncompressed {
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	if resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && resp.ProtoMajor == 1 && !resp.Uncompressed {
		sink.CloseDelimited()
	}
	w.WriteHeader(resp.StatusCode)
	flusher := http.NewResponseController(w)
	if resp.ContentLength != 0 {
		_ = flusher.Flush() // RoundTrip returns with the headers: the body may take long
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
			_ = flusher.Flush() // without a Flusher, it is sent at the end
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	for name, v := range resp.Trailer {
		if !declared[name] {
			name = http.TrailerPrefix + name
		}
		h[name] = v
	}
}
