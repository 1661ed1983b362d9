package listen

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/gateway/httpwire"
)

const (
	// lingerWait and lingerBytes bound how much is read from a refused client so that
	// it can read the error response. Closing a connection with unread bytes resets it,
	// and the reset overtakes the response.
	lingerWait  = 500 * time.Millisecond
	lingerBytes = 256 << 10
	// filling is how many bytes replace the rest of a refused header. net/http waits
	// for this many bytes before it treats a connection as active again, and writes no
	// response if it gets an error sooner.
	filling = 4
)

// A framedListener returns connections whose requests are framed as RFC 9112 requires
// (H18). It lies above TLS, and leaves connections that negotiated HTTP/2 alone.
type framedListener struct {
	net.Listener
	server *Server
}

func (l framedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var fast *fastConn
	if l.server.config.FastPath {
		fast = &fastConn{server: l.server}
	}
	if t, ok := c.(*tls.Conn); ok {
		state := t.ConnectionState()
		if state.NegotiatedProtocol == "h2" {
			return c, nil
		}
		return &framedTLSConn{framedConn{Conn: c, quit: l.server.quit, fast: fast, state: &state}}, nil
	}
	return &framedConn{Conn: c, quit: l.server.quit, fast: fast}, nil
}

// A framedConn is a connection that passes on the bytes of requests up to their first
// fault. The bytes after it are withheld: net/http reads an error instead, and answers
// 400 once it has answered the earlier requests. In the middle of a body, the error
// goes to the reader of that body.
//
// The bytes are checked in net/http's buffer, and are not copied.
type framedConn struct {
	net.Conn
	quit <-chan struct{} // closed when the server no longer waits for clients
	fast *fastConn       // nil: net/http gets all requests

	state   *tls.ConnectionState // nil without TLS
	address string               // the client's; see remote

	// Used by the reader, one at a time.
	scan  httpwire.Scanner
	fault error
	fill  int // how much of the filling has not been read yet

	free   atomic.Bool // set by net/http when a handler has taken the connection
	faulty atomic.Bool // fault is set; for Close
	shut   atomic.Bool // Close was called
}

// A framedTLSConn is a framedConn above TLS. net/http asks it for the TLS state.
type framedTLSConn struct{ framedConn }

// ConnectionState returns the value for http.Request.TLS.
func (c *framedTLSConn) ConnectionState() tls.ConnectionState { return *c.state }

// NetConn returns the underlying connection, like NetConn of a tls.Conn.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

func (c *framedConn) framed() *framedConn { return c }

// CloseWrite closes one direction.
func (c *framedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read reads received bytes, up to a fault.
func (c *framedConn) Read(p []byte) (int, error) {
	for {
		if c.fault != nil {
			return c.refuse(p)
		}
		n, err := c.receive(p)
		if n == 0 || c.free.Load() {
			return n, err
		}
		if f := c.fast; f != nil {
			if f.phase == idle && err == nil && c.scan.Between() {
				if n, err = c.serveAll(p, n); n == 0 {
					if err != nil {
						return 0, err
					}
					continue
				}
			}
			f.phase = busy
		}
		if n = c.check(p[:n]); n > 0 || err != nil {
			return n, err
		}
	}
}

// check scans p, and returns how many of its first bytes are passed on.
func (c *framedConn) check(p []byte) int {
	out := 0
	for i := 0; i < len(p); {
		n, e, err := c.scan.Next(p[i:])
		if e != httpwire.Blank {
			if out != i {
				copy(p[out:], p[i:i+n])
			}
			out += n
		}
		i += n
		if err != nil {
			c.fault = err
			c.faulty.Store(true)
			if c.scan.InHead() || c.scan.Refused() {
				c.fill = filling
				if out == 0 {
					out, _ = c.refuse(p) // not together with good bytes: net/http can read ahead while it answers those
				}
			}
			return out
		}
		if e == httpwire.HeadEnd && err == nil && c.fast != nil {
			_, e, _ = c.scan.Next(nil) // ends a message without a body
		}
		switch {
		case e == httpwire.Switched:
			c.free.Store(true)
			return out + copy(p[out:], p[i:])
		case e == httpwire.End && c.fast != nil:
			c.fast.hold(p[i:])
			return out
		}
	}
	return out
}

// refuse returns the filling of a faulty header, and then the fault. The filling is
// neither a header nor the end of one. It is needed because an error instead of a
// request's first byte would end the previous request: net/http reads ahead by one byte
// while it answers that one.
func (c *framedConn) refuse(p []byte) (int, error) {
	n := min(c.fill, len(p))
	clear(p[:n])
	c.fill -= n
	if n == 0 && len(p) > 0 {
		return 0, c.fault
	}
	return n, nil
}

// Close closes the connection, once a refused client has left.
func (c *framedConn) Close() error {
	if c.defers() {
		return nil // it is closed when the response is written
	}
	c.cancelAll()
	if c.faulty.Load() && !c.shut.Swap(true) && c.CloseWrite() == nil {
		select {
		case <-c.quit:
		default:
			// The connection is about to be closed, so its errors do not matter.
			_ = c.Conn.SetReadDeadline(time.Now().Add(lingerWait))
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}

// changed is http.Server.ConnState. The bytes that a handler reads from a hijacked
// connection are not HTTP, and an idle connection waits for a request.
func changed(c net.Conn, s http.ConnState) {
	f, ok := c.(interface{ framed() *framedConn })
	switch {
	case ok && s == http.StateHijacked:
		f.framed().free.Store(true)
	case ok && s == http.StateIdle:
		f.framed().awaits()
	}
}
