package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/weir-go/weir/gateway/httpwire"
)

// filling is how many bytes replace the rest of a refused header. net/http waits for
// this many bytes before it treats a connection as active again, and writes no response if
// it gets an error sooner.
const filling = 4

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
	t, secure := c.(*tls.Conn)
	if !secure || t.ConnectionState().NegotiatedProtocol != "h2" {
		l.server.silent.add(c)
	}
	if secure {
		state := t.ConnectionState()
		if state.NegotiatedProtocol == "h2" {
			return c, nil
		}
		return &framedTLSConn{framedConn{Conn: c, server: l.server, fast: fast, state: &state}}, nil
	}
	return &framedConn{Conn: c, server: l.server, fast: fast}, nil
}

// A framedConn is a connection that passes on the bytes of requests up to their first
// fault. The bytes after it are withheld: net/http reads an error instead, and answers
// 400 once it has answered the earlier requests. In the middle of a body, the error
// goes to the reader of that body.
//
// The bytes are checked in net/http's buffer, and are not copied.
type framedConn struct {
	net.Conn
	server *Server
	fast   *fastConn // nil: net/http gets all requests

	state   *tls.ConnectionState // nil without TLS
	address string               // the client's; see remote

	// Used by the reader, one at a time.
	heard bool // something was read
	scan  httpwire.Scanner
	fault error
	fill  int // how much of the filling has not been read yet

	free      atomic.Bool // set by net/http when a handler has taken the connection
	partial   atomic.Bool // a request has been read in part, or has a fault
	responded atomic.Bool // net/http has written since it was idle
	handled   atomic.Bool // the handler was called since net/http was idle
	ended     atomic.Bool // net/http has closed the connection while the client was sending; see linger
	lingers   atomic.Bool // it is read from since then
}

// A framedTLSConn is a framedConn above TLS. net/http asks it for the TLS state.
type framedTLSConn struct{ framedConn }

// ConnectionState returns the value for http.Request.TLS.
func (c *framedTLSConn) ConnectionState() tls.ConnectionState { return *c.state }

// NetConn returns the underlying connection, like NetConn of a tls.Conn.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

func (c *framedConn) framed() *framedConn { return c }

// Write writes a part of a response.
func (c *framedConn) Write(p []byte) (int, error) {
	if !c.responded.Load() {
		c.responded.Store(true)
		c.notice(p)
	}
	return c.Conn.Write(p)
}

// notice reports a response, of which p is the beginning, that net/http sends without a call
// of the handler: it could not read the request.
func (c *framedConn) notice(p []byte) {
	rejected := c.server.options.Rejected
	if rejected == nil || c.handled.Load() || c.free.Load() {
		return
	}
	const version = "HTTP/1.1 "
	if len(p) < len(version)+3 || string(p[:len(version)]) != version {
		return
	}
	if status, err := strconv.Atoi(string(p[len(version) : len(version)+3])); err == nil {
		rejected(c.RemoteAddr(), status)
	}
}

// CloseWrite closes one direction. net/http calls it 500 ms before Close if a body is too
// large to be read after its response.
func (c *framedConn) CloseWrite() error {
	if !c.free.Load() && c.linger() {
		return nil
	}
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
		if !c.heard {
			c.heard = true
			c.server.silent.remove(c.Conn)
		}
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
		n = c.check(p[:n])
		if partial := c.fault != nil || !c.scan.Between(); partial != c.partial.Load() {
			c.partial.Store(partial)
		}
		if n > 0 || err != nil {
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
			if c.scan.InHead() || c.scan.Refused() {
				c.fill = filling
				if out == 0 {
					out, _ = c.refuse(p) // not together with good bytes: net/http can read ahead while it answers those
				}
			}
			return out
		}
		if e == httpwire.HeadEnd && err == nil {
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

// Close closes the connection. A client that has a response and is still sending can
// read the response first.
func (c *framedConn) Close() error {
	if c.defers() {
		return nil // it is closed when the response is written
	}
	c.cancelAll()
	if c.linger() {
		return nil
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
