package forward

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir/gateway/httpwire"
)

// A framed is an HTTP/1 connection to a server, above TLS. It scans responses on
// their way to net/http, and fails on one with ambiguous or invalid framing, or
// without a request. Such a response is withheld, with everything that arrived in
// the same read, and the connection is not reused (H5). Bytes that arrive without
// a request in progress never reach net/http, which would log them.
//
// Some servers send a body after a response that has none: to HEAD, a 204 or a 304.
// Such a response ends with its head (RFC 9112, section 6.3, rule 1), and the bytes
// after it look like another response. So the connection ends there for
// both directions, and the server is not at fault.
type framed struct {
	net.Conn
	c *conn // below Conn, or Conn itself

	// Used by one reader at a time: net/http, and after a 101 the tunnel.
	scan  httpwire.Scanner
	fault error
	after bool // the last response was one without a body
	last  int  // its status
}

func newFramed(above net.Conn, c *conn) *framed {
	f := &framed{Conn: above, c: c}
	f.scan.Init(httpwire.Responses)
	return f
}

// lookahead is the largest end of a body that is read into a separate buffer.
const lookahead = 32 << 10

var lookaheads = sync.Pool{New: func() any { return new([lookahead + 1]byte) }}

var (
	errUnasked = &ProtocolError{"the server sent bytes without a request"}
	// errSurplus is the end of a connection on which a body followed a response that
	// has none. It counts against no server.
	errSurplus = &ProtocolError{"the server sent a body after a response without one"}
)

// Read reads what has arrived, if it is valid.
//
// net/http reads the end of a large body with a buffer of exactly that size.
// Bytes sent after it would be found too late, when the response is already
// stored and passed on. So the end is read with room for one more byte.
func (f *framed) Read(p []byte) (int, error) {
	if f.fault != nil {
		return 0, f.fault
	}
	var n int
	var err error
	switch rest := f.scan.Length(); {
	case rest == 0 || int64(len(p)) != rest:
		n, err = f.Conn.Read(p)
		if n > 0 {
			n = f.check(p[:n])
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
	switch {
	case f.fault == errSurplus && n > 0: //nolint:errorlint // it is set below
		return n, nil // the response that came before
	case f.fault == errSurplus: //nolint:errorlint // it is set below
		return 0, f.fault
	case f.fault != nil:
		f.c.down.Store(true)
		return 0, f.fault
	}
	f.c.failed(err)
	return n, err
}

// check scans p, and sets fault if p is invalid. It returns how many bytes of p may be
// read: all of them, or those before a body that does not belong there.
func (f *framed) check(p []byte) int {
	size := len(p)
	for len(p) > 0 {
		begins, start := f.scan.Between(), p
		if begins && !f.begin() {
			if f.fault = errUnasked; f.after {
				f.surplus()
			}
			return size - len(p)
		}
		n, e, err := f.scan.Next(p)
		p = p[n:]
		if err != nil {
			f.fault = &ProtocolError{err.Error()}
			_, secure := f.Conn.(*tls.Conn)
			switch {
			case f.after && f.scan.InStatusLine():
				f.surplus()
			case begins && !secure && tlsRecord(start):
				f.fault = wantsTLS()
			}
			return 0
		}
		if e == httpwire.HeadEnd && len(p) == 0 {
			_, e, _ = f.scan.Next(nil) // the end of the message, if it has no body
		}
		if e == httpwire.HeadEnd && f.scan.Head().Status >= 200 {
			f.c.heads()
		}
		if e == httpwire.Switched {
			return size
		}
		if e == httpwire.End && f.scan.Head().Status >= 200 {
			f.ended()
		}
	}
	return size
}

// ended records the end of a final response.
func (f *framed) ended() {
	f.after, f.last = f.scan.Bodyless(), f.scan.Head().Status
	if f.after && f.c.surplus.kind(f.last).Load() {
		f.c.lost.Store(true) // its body may be on the way
	}
	f.c.came()
}

// surplus ends the connection because of a body after a response without one. What is
// sent on it from now on would get a part of that body as its response.
func (f *framed) surplus() {
	f.fault = errSurplus
	f.c.surplus.kind(f.last).Store(true)
	f.c.lost.Store(true)
}

// A surplus knows the kinds of responses without a body after which a server has sent
// one. A connection is not used again after such a response: the body could arrive
// while the next request is in progress.
type surplus struct{ seen [3]atomic.Bool }

// kind returns the index of a final response without a body: 204, 304, or another
// status for HEAD.
func (s *surplus) kind(status int) *atomic.Bool {
	switch status {
	case http.StatusNoContent:
		return &s.seen[0]
	case http.StatusNotModified:
		return &s.seen[1]
	}
	return &s.seen[2]
}

// begin reports whether a response may begin, and passes the request's method to
// the Scanner.
func (f *framed) begin() bool {
	method, ok := f.c.answers()
	f.scan.Answers(method)
	return ok
}

// Write writes part of a request.
func (f *framed) Write(p []byte) (int, error) {
	f.c.sends()
	n, err := f.Conn.Write(p)
	if err != nil {
		f.c.outlast()
	}
	return n, err
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

// heads records that the head of the final response has arrived.
func (c *conn) heads() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headed = true
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
