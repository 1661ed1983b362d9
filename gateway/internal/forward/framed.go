package forward

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/weir-go/weir/gateway/httpwire"
)

// A framed is a connection of HTTP/1 to a server, above TLS. It reads the answers
// on their way to net/http, and fails where one is framed in two ways, in none,
// or not at all asked for: such an answer, and all that came in the same piece,
// is withheld, and the connection is not used again (H5). Bytes that come without
// a request in progress are never seen by net/http, which would log them.
type framed struct {
	net.Conn
	c *conn // below Conn, or Conn itself

	// Used by the reader, one at a time: net/http, and after a 101 the tunnel.
	scan  httpwire.Scanner
	fault error
}

func newFramed(above net.Conn, c *conn) *framed {
	f := &framed{Conn: above, c: c}
	f.scan.Init(httpwire.Responses)
	return f
}

// lookahead is the most of a body's end that is read into a buffer of ours.
const lookahead = 32 << 10

var lookaheads = sync.Pool{New: func() any { return new([lookahead + 1]byte) }}

var errUnasked = &ProtocolError{"bytes of the server that nobody has asked for"}

// Read reads what has come, if it is in order.
//
// net/http reads the end of a big body with room for no more than that. What the
// server has sent behind it would be found too late, when the answer is stored
// and passed on, so there it is read with room for one byte more.
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
			f.check(p[:n])
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
		return 0, f.fault
	}
	f.c.failed(err)
	return n, err
}

// check scans p, and sets fault.
func (f *framed) check(p []byte) {
	for len(p) > 0 {
		if f.scan.Between() && !f.begin() {
			f.fault = errUnasked
			return
		}
		begins, start := f.scan.Between(), p
		n, e, err := f.scan.Next(p)
		p = p[n:]
		if err != nil {
			f.fault = &ProtocolError{err.Error()}
			if _, secure := f.Conn.(*tls.Conn); begins && !secure && tlsRecord(start) {
				f.fault = wantsTLS()
			}
			return
		}
		if e == httpwire.HeadEnd && len(p) == 0 {
			_, e, _ = f.scan.Next(nil) // the end, if there is no body
		}
		if e == httpwire.Switched {
			return
		}
		if e == httpwire.End && f.scan.Head().Status >= 200 {
			f.c.came()
		}
	}
}

// begin reports whether an answer may begin, and tells the Scanner to what.
func (f *framed) begin() bool {
	method, ok := f.c.answers()
	f.scan.Answers(method)
	return ok
}

// Write writes some of a request.
func (f *framed) Write(p []byte) (int, error) {
	f.c.sends()
	return f.Conn.Write(p)
}

// ReadFrom writes the body of a request. It is [io.ReaderFrom], with which
// net/http does not allocate a buffer for each request.
func (f *framed) ReadFrom(r io.Reader) (int64, error) {
	b := buffers.Get().(*[32 << 10]byte)
	defer buffers.Put(b)
	return io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{r}, b[:])
}

// CloseWrite ends what is sent, for a tunnel.
func (f *framed) CloseWrite() error {
	if half, ok := f.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// sends says that some of a request is written.
func (c *conn) sends() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = true
}

// answers returns the method that an answer is waited for to, and whether one
// is. There is none before the request has begun to be written.
func (c *conn) answers() (method string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ok = c.awaited != "" && c.sent
	c.some = c.some || ok
	return c.awaited, ok
}

// came says that the answer has come.
func (c *conn) came() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited = ""
}

// answering reports whether some of an answer to a's request has come.
func (c *conn) answering(a *attempt) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.user == a && c.some
}

var _ io.ReadWriteCloser = (*framed)(nil)
