package listen

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/pires/go-proxyproto"
)

// A progressListener returns connections whose writes have to make progress.
type progressListener struct {
	net.Listener
	timeout time.Duration // none if not positive
}

func (l progressListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &progressConn{Conn: c, timeout: l.timeout}, nil
}

// A progressConn is a connection whose writes fail if the client reads nothing for the
// time-out. It lies below TLS, so it covers handshakes, the server's flush after a
// handler has returned, and hijacked connections.
//
// It has no ReadFrom: the proxy's responses come from memory or go through TLS, where
// sendfile is of no use.
type progressConn struct {
	net.Conn
	timeout time.Duration

	mu       sync.Mutex
	explicit time.Time // guarded by mu; the server's write deadline, zero for none
}

// Write writes p. A write that exceeds its deadline continues if the client has read a
// part of it.
func (c *progressConn) Write(p []byte) (int, error) {
	if c.timeout <= 0 {
		return c.Conn.Write(p)
	}
	n := 0
	for {
		if err := c.arm(); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		if err == nil || m == 0 || !errors.Is(err, os.ErrDeadlineExceeded) || c.over() {
			return n, err
		}
	}
}

// arm sets the deadline of the next write. It holds the lock while doing so. Otherwise
// an explicit deadline that is set at the same time would be lost:
//
//	A: arm reads that there is no explicit deadline
//	B: SetWriteDeadline notes one in the past, and sets it, to end A's write
//	A: sets its own, and writes on
func (c *progressConn) arm() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(c.timeout)
	if !c.explicit.IsZero() && c.explicit.Before(at) {
		at = c.explicit
	}
	return c.Conn.SetWriteDeadline(at)
}

// over reports whether the explicit deadline has passed.
func (c *progressConn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.explicit.IsZero() && !time.Now().Before(c.explicit)
}

// SetWriteDeadline sets a deadline in addition to the one for progress.
func (c *progressConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.explicit = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets both deadlines.
func (c *progressConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite closes one direction of the connection, which lets the client read an
// error response before the connection is gone. net/http uses it if it exists.
func (c *progressConn) CloseWrite() error {
	if half, ok := c.lowest().(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// SetLinger calls SetLinger of the TCP connection.
func (c *progressConn) SetLinger(seconds int) error {
	if t, ok := c.lowest().(*net.TCPConn); ok {
		return t.SetLinger(seconds)
	}
	return errors.ErrUnsupported
}

// lowest returns the underlying connection, which is a TCP connection outside of tests.
func (c *progressConn) lowest() net.Conn {
	below := c.Conn
	for {
		switch conn := below.(type) {
		case *slotConn:
			below = conn.Conn
		case *proxyproto.Conn:
			below = conn.Raw()
		default:
			return below
		}
	}
}
