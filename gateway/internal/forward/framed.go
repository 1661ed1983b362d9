package forward

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/weir-go/weir/gateway/httpwire"
)

// A framed is an HTTP/1 connection to a server, above TLS. It scans responses on
// their way to net/http, and fails on one with ambiguous or invalid framing, or
// without a request. Such a response is withheld, with everything that arrived in
// the same read, and the connection is not reused (H5). Bytes that arrive without
// a request in progress never reach net/http, which would log them. A response to HEAD,
// a 204 or a 304 ends with its head whatever follows (RFC 9112, section 6.3): it is
// passed on without the rest, is not stored, and the connection is not reused.
type framed struct {
	net.Conn
	c *conn // below Conn, or Conn itself

	// Used by one reader at a time: net/http, and after a 101 the tunnel.
	scan   httpwire.Scanner
	method string // of the request whose response is being read, or was last
	fault  error
}

func newFramed(above net.Conn, c *conn) *framed {
	f := &framed{Conn: above, c: c}
	f.scan.Init(httpwire.Responses)
	return f
}

// lookahead is the largest end of a body that is read into a separate buffer.
const lookahead = 32 << 10

var lookaheads = sync.Pool{New: func() any { return new([lookahead + 1]byte) }}

var errUnasked = &ProtocolError{"the server sent bytes without a request"}

// Read reads what has arrived, if it is valid.
//
// net/http reads the end of a large body with a buffer of exactly that size.
// Bytes sent after it would be found too late, when the response is already
// stored and passed on. So the end is read with room for one more byte.
func (f *framed) Read(p []byte) (int, error) {
	if f.fault != nil {
		return 0, f.fault
	}
	var n, good int
	var err error
	switch rest := f.scan.Length(); {
	case rest == 0 || int64(len(p)) != rest:
		n, err = f.Conn.Read(p)
		if n > 0 {
			good = f.check(p[:n])
		}
	case rest > lookahead:
		return f.Read(p[:lookahead])
	default:
		b := lookaheads.Get().(*[lookahead + 1]byte)
		defer lookaheads.Put(b)
		n, err = f.Conn.Read(b[:rest+1])
		f.check(b[:n])
		n = copy(p, b[:n])
	}
	if f.fault != nil {
		f.c.down.Store(true)
		if good > 0 {
			f.c.beyond.Store(true)
			return good, nil // the next Read returns the fault
		}
		return 0, f.fault
	}
	f.c.failed(err)
	return n, err
}

// check scans p, and sets fault if p is invalid. good is then how many of its bytes are
// valid nevertheless.
func (f *framed) check(p []byte) (good int) {
	all := len(p)
	for len(p) > 0 {
		if f.scan.Between() && !f.begin() {
			f.fault = errUnasked
			if f.bodiless() {
				return all - len(p)
			}
			return 0
		}
		begins, start := f.scan.Between(), p
		n, e, err := f.scan.Next(p)
		p = p[n:]
		if err != nil {
			f.fault = &ProtocolError{err.Error()}
			if _, secure := f.Conn.(*tls.Conn); begins && !secure && tlsRecord(start) {
				f.fault = wantsTLS()
			}
			return 0
		}
		if e == httpwire.HeadEnd && len(p) == 0 {
			_, e, _ = f.scan.Next(nil) // the end of the message, if it has no body
		}
		if e == httpwire.Switched {
			return 0
		}
		if e == httpwire.End && f.scan.Head().Status >= 200 {
			f.c.came()
		}
	}
	return 0
}

// bodiless reports whether the response that was read last ends with its head, whatever
// its fields say.
func (f *framed) bodiless() bool {
	status := f.scan.Head().Status
	return f.method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
}

// begin reports whether a response may begin, and passes the request's method to
// the Scanner.
func (f *framed) begin() bool {
	method, ok := f.c.answers()
	f.scan.Answers(method)
	if ok {
		f.method = method
	}
	return ok
}

// Write writes part of a request.
func (f *framed) Write(p []byte) (int, error) {
	f.c.sends()
	return f.Conn.Write(p)
}

// ReadFrom writes the body of a request. It implements [io.ReaderFrom], so
// net/http does not allocate a buffer per request.
func (f *framed) ReadFrom(r io.Reader) (int64, error) {
	b := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(b)
	return io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{r}, b[:])
}

// CloseWrite closes the sending side, for a tunnel.
func (f *framed) CloseWrite() error {
	if half, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// lengthIsClear reports whether a response has no Content-Length, or one that is a
// number. A framed checks this on HTTP/1. On HTTP/2 it does not change the framing,
// and net/http ignores a Content-Length that is repeated or not a number, but an
// HTTP/1 client or the next proxy may use it (RFC 9113, section 8.1.1). net/http does
// check the body against a valid one.
func lengthIsClear(lengths []string) bool {
	if len(lengths) == 0 {
		return true
	}
	_, err := strconv.ParseUint(lengths[0], 10, 63)
	return len(lengths) == 1 && err == nil
}

// sends records that part of a request is being written.
func (c *conn) sends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = true
}

// answers returns the method of the request whose response is expected, and
// whether there is one. A response is expected only once part of the request was
// written.
func (c *conn) answers() (method string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok = c.awaited != "" && c.sent
	c.some = c.some || ok
	return c.awaited, ok
}

// came records that the response has arrived.
func (c *conn) came() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited = ""
}

// answering reports whether part of a response to a's request has arrived.
func (c *conn) answering(a *attempt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.user == a && c.some
}

var _ io.ReadWriteCloser = (*framed)(nil)
