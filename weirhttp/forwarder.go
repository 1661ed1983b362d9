package weirhttp

import (
	"bytes"
	"io"
	"net"
	"net/http"

	"github.com/weir-go/weir/internal/rfc9111"
)

// A Sink is the ResponseWriter that a [Handler] passes to the next handler. A handler
// that generates its responses uses it as any other ResponseWriter. A forwarder,
// which passes on the responses of another server, can tell the Handler more with it:
// see [SinkOf].
//
// A forwarder whose response breaks off in the middle of a body panics with
// http.ErrAbortHandler, as usual in net/http: clients get a broken response, and
// nothing is stored (H5).
//
// Like other ResponseWriters, a Sink is not safe for concurrent use. Methods may be
// added, so embed Sink where you implement it, for example in a test.
type Sink interface {
	http.ResponseWriter

	// Fail reports, instead of WriteHeader, that there is no response, and why; the
	// forwarder returns after it. The Handler decides what the client gets: a stale
	// response, or an error from its table. If the forwarder knows more than the
	// cause, err is a [*ForwardError]. After WriteHeader, Fail does nothing.
	Fail(err error)

	// CloseDelimited reports, before WriteHeader, that the body ends with the
	// origin's connection, so that a complete body cannot be distinguished from a
	// truncated one. The Handler passes it on and does not store it (H5).
	CloseDelimited()
}

// SinkOf returns the Sink that w is or wraps (by Unwrap, as in
// http.ResponseController), or nil. If it is nil, there is no Handler in front of the
// forwarder, which then responds alone.
func SinkOf(w http.ResponseWriter) Sink {
	for {
		switch t := w.(type) {
		case Sink:
			return t
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return nil
		}
	}
}

// A ForwardError is passed to [Sink.Fail] by a forwarder that knows more than the
// cause.
type ForwardError struct {
	// Err is the cause. Required.
	Err error
	// Unreachable means that there was no connection to the origin: refused, no
	// route, no address, or a connect timeout.
	Unreachable bool
	// Unavailable means that there is no origin to send the request to at the moment. The client
	// gets 503.
	Unavailable bool
	// Request means that the request is at fault, and not the origin: it cannot be
	// forwarded, or its body could not be read. The client gets 413 if Err is a
	// *http.MaxBytesError, 408 if Err is a timeout or [ErrSlowClient], and otherwise 400. Its
	// context may have ended, as net/http ends it when the body breaks.
	Request bool
	// Status is the status of a response that the forwarder has given up, because MayFallBack was
	// true. It is what the client gets if there is no Fallback for the request after all. 0
	// means that there was no response.
	Status int
	// ProxyStatus is an error type of RFC 9209, section 2.3, perhaps with parameters,
	// for the Proxy-Status field: tls_protocol_error; details="no TLS". It must be
	// valid there and contain nothing that the origin sent. If it is empty, the type
	// follows from Err and Unreachable.
	ProxyStatus string
	// NotRun means that the server has said that it has not begun with the request, so that
	// it can be sent again, whatever its method. Unreachable means that as well.
	NotRun bool
	// Sent means that the request, or a part of it, was sent, and that there was no
	// response when the client left: the origin may still work on it. The permit of
	// the call is then held until Ended is closed, or, if that is nil, for as long as
	// calls of this Handler take, at most Options.HeadTimeout (H14).
	Sent bool
	// Ended is closed when the origin has responded or closed the connection. nil
	// means that this cannot be seen.
	Ended <-chan struct{}
}

func (e *ForwardError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ForwardError) Unwrap() error { return e.Err }

// BodyIsRead reports whether a Handler has read the whole body of r before it called
// the next handler (see [ClientLimits.ReadAhead]). In that case reading it never
// blocks, and a forwarder that stops reading need not watch the client's connection.
func BodyIsRead(r *http.Request) bool {
	_, ok := r.Body.(*readBody)
	return ok
}

// IsRead reports whether r, as a Handler passes it to the next handler, is a declared read
// ([Options.Reads]), or another read with a body: it can be sent again.
func IsRead(r *http.Request) bool { return ruleOf(r) != nil }

// A readBody is a body that was read to the end before admission.
type readBody struct {
	bytes.Reader
	held *heldBody // nil unless it is a read's
}

var _ io.ReadCloser = (*readBody)(nil)

func newReadBody(b []byte) *readBody {
	r := new(readBody)
	r.Reset(b)
	return r
}

// Close does nothing.
func (*readBody) Close() error { return nil }

// Break breaks off the response to r so that the client can tell that it is
// incomplete. It does not return: it panics with http.ErrAbortHandler, and net/http
// omits the last chunk or resets the stream. With HTTP/1.0, where a body may end with
// the connection, Break resets the connection, because net/http would close it in an
// orderly way.
func Break(w http.ResponseWriter, r *http.Request) {
	if !r.ProtoAtLeast(1, 1) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			Reset(conn)
		}
	}
	panic(http.ErrAbortHandler)
}

// Reset closes conn with a TCP reset, so that the peer does not mistake the end for
// an orderly one. It closes the socket before the layers above it (found by NetConn,
// as in tls.Conn), because TLS would send a close_notify alert first.
func Reset(conn net.Conn) {
	for below := conn; ; {
		if tcp, ok := below.(interface{ SetLinger(seconds int) error }); ok {
			_ = tcp.SetLinger(0) // a closed connection needs no reset
			_ = below.Close()
			break
		}
		inner, ok := below.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		below = inner.NetConn()
	}
	_ = conn.Close()
}

// AddressFields returns the canonical names of the fields, besides X-Forwarded-For and
// Forwarded, in which proxies write the address of a client (X-Real-Ip, True-Client-Ip,
// CF-Connecting-IP, ...). Any client can write them too, so a forwarder removes those of
// peers that it does not trust.
func AddressFields() []string { return rfc9111.Addresses() }

// ComparedLines returns the lines of a field by which two requests to a Handler differ,
// unless responses say more: none for fields such as User-Agent or Traceparent and for
// those of one connection, and of Baggage only the members that are not of a tracer. The
// name is in canonical form (http.CanonicalHeaderKey).
func ComparedLines(name string, lines []string) []string { return rfc9111.Compared(name, lines) }
