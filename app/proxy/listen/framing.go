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
	// lingerWait and lingerBytes bound what is read of a client that was refused,
	// so that it gets to see why: bytes that nobody has read make the end of a
	// connection a reset, which overtakes the answer.
	lingerWait  = 500 * time.Millisecond
	lingerBytes = 256 << 10
	// filling is how many bytes stand for the rest of a head that is refused.
	// net/http waits for as many before it takes a connection for busy again,
	// and answers nothing if it gets an error sooner.
	filling = 4
)

// A framedListener gives connections whose requests are framed as RFC 9112 has
// it (H18). It lies above TLS, which leaves it what speaks HTTP/1 only.
type framedListener struct {
	net.Listener
	server *Server
}

func (l framedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	var hits *hitConn
	if l.server.config.FastHits && l.server.options.Stored != nil {
		hits = &hitConn{server: l.server}
	}
	if t, ok := c.(*tls.Conn); ok {
		state := t.ConnectionState()
		if state.NegotiatedProtocol == "h2" {
			return c, nil
		}
		return &framedTLSConn{framedConn{Conn: c, quit: l.server.quit, hits: hits, state: &state}}, nil
	}
	return &framedConn{Conn: c, quit: l.server.quit, hits: hits}, nil
}

// A framedConn is a connection that passes on what has come of requests up to
// their first fault. What follows is withheld: net/http reads an error, and
// answers 400 once it has answered the requests before, or, in the middle of a
// body, returns the error to the reader of that body.
//
// Bytes are looked at where net/http wants them, and are not copied.
type framedConn struct {
	net.Conn
	quit <-chan struct{} // closed when nobody is waited for any more
	hits *hitConn        // nil: net/http gets all requests

	state   *tls.ConnectionState // nil without TLS
	address string               // the client's; see remote

	// Used by the reader, one at a time.
	scan  httpwire.Scanner
	fault error
	fill  int // how much of the filling is to come

	free   atomic.Bool // set by net/http when a handler has taken the connection
	faulty atomic.Bool // fault is set; for Close
	shut   atomic.Bool // Close was called
}

// A framedTLSConn is a framedConn above TLS, of which net/http asks the state.
type framedTLSConn struct{ framedConn }

// ConnectionState is what http.Request.TLS is taken from.
func (c *framedTLSConn) ConnectionState() tls.ConnectionState { return *c.state }

// NetConn returns the connection below, as that of a tls.Conn does.
func (c *framedConn) NetConn() net.Conn { return c.Conn }

func (c *framedConn) framed() *framedConn { return c }

// CloseWrite ends one direction.
func (c *framedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// Read reads what has come, up to a fault.
func (c *framedConn) Read(p []byte) (int, error) {
	for {
		if c.fault != nil {
			return c.refuse(p)
		}
		n, err := c.receive(p)
		if n == 0 || c.free.Load() {
			return n, err
		}
		if h := c.hits; h != nil {
			if h.phase == idle && err == nil && c.scan.Between() {
				if n, err = c.answer(p, n); n == 0 {
					if err != nil {
						return 0, err
					}
					continue
				}
			}
			h.phase = busy
		}
		if n = c.check(p[:n]); n > 0 || err != nil {
			return n, err
		}
	}
}

// check scans p, and returns how much of it is passed on, from its beginning.
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
					out, _ = c.refuse(p) // not with what is good: net/http may look out while it answers that
				}
			}
			return out
		}
		if e == httpwire.HeadEnd && err == nil && c.hits != nil {
			_, e, _ = c.scan.Next(nil) // ends a message without a body
		}
		switch {
		case e == httpwire.Switched:
			c.free.Store(true)
			return out + copy(p[out:], p[i:])
		case e == httpwire.End && c.hits != nil:
			c.hits.hold(p[i:])
			return out
		}
	}
	return out
}

// refuse gives the filling of a head that is at fault, and then the fault. The
// filling is no head and no end of one; it is there because an error in the
// place of a request's first byte would be the end of the request before: net/http
// looks out for it with one byte while that is being answered.
func (c *framedConn) refuse(p []byte) (int, error) {
	n := min(c.fill, len(p))
	clear(p[:n])
	c.fill -= n
	if n == 0 && len(p) > 0 {
		return 0, c.fault
	}
	return n, nil
}

// Close closes the connection, once a client that was refused has left.
func (c *framedConn) Close() error {
	if c.defers() {
		return nil // it is closed when the response is written
	}
	if c.faulty.Load() && !c.shut.Swap(true) && c.CloseWrite() == nil {
		select {
		case <-c.quit:
		default:
			// Whatever is wrong with a connection that is closed next is no matter.
			_ = c.Conn.SetReadDeadline(time.Now().Add(lingerWait))
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}

// changed is for http.Server.ConnState: what a handler reads that has taken over a
// connection is no HTTP, and an idle one waits for a request.
func changed(c net.Conn, s http.ConnState) {
	f, ok := c.(interface{ framed() *framedConn })
	switch {
	case ok && s == http.StateHijacked:
		f.framed().free.Store(true)
	case ok && s == http.StateIdle:
		f.framed().awaits()
	}
}
