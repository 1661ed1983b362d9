package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"
)

// The bounds of a lingering close.
const (
	LingerTime        = 30 * time.Second       // for a connection
	LingerIdle        = 5 * time.Second        // without a byte
	LingerBytes       = 64 << 20               // from a connection
	LingerConnections = 256                    // of all servers that share a Lingering
	LingerStream      = 200 * time.Millisecond // for a stream of HTTP/2

	lingerBuffer = 16 << 10 // of a connection; its contents are discarded
)

// A Lingering bounds the connections that are closed by a lingering close (RFC 9112,
// section 9.6), over all servers that share it.
//
// A client that is sending a body does not read yet. If the server responds and closes the
// connection, the next bytes of the body meet a closed socket. The client's system gets a
// reset for them and drops the response, unread. So the server closes only its sending
// side, and reads on until the client has sent everything or has left.
type Lingering struct {
	open  atomic.Int64
	reset atomic.Uint64
}

// Reset returns how many connections were closed although their clients were still
// sending: because there were LingerConnections, or a connection reached LingerTime or
// LingerBytes.
func (l *Lingering) Reset() uint64 { return l.reset.Load() }

// begin reports whether another connection may linger. If so, end must be called.
func (l *Lingering) begin() bool {
	if l.open.Add(1) <= LingerConnections {
		return true
	}
	l.open.Add(-1)
	l.reset.Add(1)
	return false
}

func (l *Lingering) end() { l.open.Add(-1) }

// discard reads from c until over reports that the client has sent everything, the client
// has left, or a bound is reached. It keeps nothing of what it reads.
func (l *Lingering) discard(c net.Conn, over func([]byte) bool) {
	end := time.Now().Add(LingerTime)
	buf := make([]byte, lingerBuffer)
	for left := LingerBytes; left > 0; {
		by := time.Now().Add(LingerIdle)
		if end.Before(by) {
			by = end
		}
		if c.SetReadDeadline(by) != nil {
			return
		}
		n, err := c.Read(buf[:min(left, lingerBuffer)])
		if over(buf[:n]) {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && by.Equal(end) {
			break
		}
		if err != nil {
			return
		}
		left -= n
	}
	l.reset.Add(1)
}

// testLinger is what tests have for LingerStream, or 0.
var testLinger atomic.Int64

// linger sends the response to a request of HTTP/2, all but its end, and then discards what
// the client is still sending, for up to LingerStream. net/http resets the stream in the same
// moment as it ends the response. Some clients, such as curl 7.88, fail if the reset arrives
// while they send, and lose the response. With the response at hand, most of them stop. The
// time is short, since others, such as Go's, wait for the end of the stream.
//
// A client that waits for a 100 gets none: net/http sends it before a response only.
func (b *pacedBody) linger(rc *http.ResponseController) {
	if b.ended || b.cut || rc.Flush() != nil {
		return
	}
	if rc.SetReadDeadline(time.Now().Add(cmp.Or(time.Duration(testLinger.Load()), LingerStream))) != nil {
		return
	}
	buf := make([]byte, lingerBuffer)
	for left := LingerBytes; left > 0; {
		n, err := b.ReadCloser.Read(buf)
		if err != nil {
			return
		}
		left -= n
	}
}

// halfClose closes the sending side of c, and reports whether that was possible. A TLS
// client learns it from the close_notify, and from the end of the TCP connection below.
func halfClose(c net.Conn) bool {
	if t, ok := c.(*tls.Conn); ok {
		_ = t.CloseWrite() // fails if the connection is gone, like the next one
	}
	half, ok := c.(interface{ CloseWrite() error })
	if p := below(c); p != nil {
		half, ok = p, true
	}
	return ok && half.CloseWrite() == nil
}

// linger ends the connection, which net/http wants to close, with a lingering close if
// its client has a response and is still sending. It returns false if the connection has
// to be closed now.
//
// The reading is not net/http's business any more: it can close a connection while it
// holds the lock of its server.
func (c *framedConn) linger() bool {
	if c.lingers.Load() {
		return !c.server.cut.Load()
	}
	if c.free.Load() || !c.responded.Load() || !c.partial.Load() || c.ended.Swap(true) || !c.server.options.Lingering.begin() {
		return false
	}
	if !halfClose(c.Conn) || !c.server.remember(c) {
		c.server.options.Lingering.end()
		return false
	}
	c.lingers.Store(true)
	c.server.aside.Add(1)
	over := c.complete
	if c.server.stopping.Load() {
		// net/http can close a connection that it considers idle, on another goroutine than
		// the reader's, which has the Scanner.
		over = func([]byte) bool { return false }
	}
	go func() { // until a bound of the Lingering, or until the server cuts off its connections
		c.server.options.Lingering.discard(c.Conn, over)
		c.server.forget(c)
		_ = c.Conn.Close() // the client has left, or cannot be waited for
		c.server.options.Lingering.end()
		c.server.aside.Add(-1)
		c.server.asideEnded()
	}()
	return true
}

// complete reports whether the request ends with p. The end of a faulty one is unknown.
func (c *framedConn) complete(p []byte) bool {
	for c.fault == nil && len(p) > 0 && !c.scan.Between() {
		n, _, err := c.scan.Next(p)
		c.fault, p = err, p[n:]
	}
	return c.fault == nil && c.scan.Between()
}

// lingerAfter closes c, which is not framed, with a lingering close. It blocks; ctx cuts
// it off.
func lingerAfter(ctx context.Context, l *Lingering, c net.Conn) {
	defer c.Close()
	if !l.begin() {
		return
	}
	defer l.end()
	if !halfClose(c) {
		return
	}
	defer context.AfterFunc(ctx, func() { c.Close() })()
	l.discard(c, func([]byte) bool { return false })
}
