package forward

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a connection to a server, below TLS. It counts the bytes written, and
// closes itself after it was idle for too long, unless it carries streams (HTTP/2
// does that itself).
//
// A request and the timer may want the same idle conn at once:
//
//	timer:   finds it idle, and marks it lost
//	request: takes it; it is lost, so Write refuses, and nothing is written
//	timer:   closes it
//	request: fails with nothing written, and is sent on another
//
// In the opposite order, the timer finds it in use and does nothing.
type conn struct {
	net.Conn
	tls     *tls.ConnectionState // nil without TLS
	streams bool
	direct  bool         // used without net/http, which would read while it writes
	surplus *surplus     // of the server
	until   time.Time    // after that it takes no new requests; zero means that it always does
	wrote   atomic.Int64 // bytes of requests (and of a TLS handshake)
	// ending is set when TLS sends its closing alert: crypto/tls sets a deadline
	// before that, and net/http never sets one. Later bytes do not belong to a
	// request.
	ending atomic.Bool
	begun  bool        // set by the reader: something was read
	http1  atomic.Bool // the first bytes are an HTTP/1 response, on a connection for HTTP/2
	lost   atomic.Bool // set under mu, read without it so that Write does not wait for mu
	// closing is set when this side closes the connection, and down if it failed
	// before that, which is the server's fault. They are atomic because a Read
	// can be in progress.
	closing, down atomic.Bool
	// over is closed when there is nothing more to read: after the end of the server's
	// bytes, and after Close.
	over chan struct{}
	once sync.Once // closes over

	// reads is held while the connection is read, so that the wait for the server after
	// its client has left (see leave) begins once the last Read has returned.
	reads sync.Mutex
	left  atomic.Bool // the client of user has left; atomic because a Read can be in progress

	mu   sync.Mutex
	user *attempt // guarded by mu: the last user
	// State of the expected response to user's request, see framed.
	awaited string        // guarded by mu: the request's method, "" if no response is expected
	sent    bool          // guarded by mu: part of the request was written
	some    bool          // guarded by mu: part of the response has arrived
	headed  bool          // guarded by mu: the head of the final response has arrived
	working chan struct{} // guarded by mu: see leave; nil before
	idle    bool          // guarded by mu
	keep    time.Duration // guarded by mu: how long it may be idle
	timer   *time.Timer   // guarded by mu; nil until the first idle time
	expired func()        // guarded by mu: called after it was idle for too long; may be nil
}

// unused starts the idle timer of a newly opened connection: it may turn out not
// to be needed.
func (c *conn) unused() {
	if !c.streams {
		c.put(nil)
	}
}

// take records that a's request will be written, and returns the number of bytes
// written before.
func (c *conn) take(a *attempt, method string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.user, c.idle = a, false
	c.awaited, c.sent, c.some, c.headed = cmp.Or(method, "GET"), false, false, false
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.wrote.Load()
}

// onExpired sets fn to be called when c was idle for too long, before it is
// closed.
func (c *conn) onExpired(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = fn
}

// put records that a no longer uses c. Another attempt may have taken c already.
func (c *conn) put(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.user == a {
		c.idle = true
		c.waitLocked()
	}
}

// setKeep sets how long the server allows a's connection to be idle.
func (c *conn) setKeep(a *attempt, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.user == a {
		c.keep = d
		if c.idle {
			c.waitLocked()
		}
	}
}

// waitLocked starts the timer. c.mu must be held.
func (c *conn) waitLocked() {
	keep := c.keep
	if c.user != nil && !c.until.IsZero() { // a new one is always used
		keep = max(min(keep, time.Until(c.until)), 0)
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(keep, c.tooLong)
		return
	}
	c.timer.Reset(keep)
}

// old reports whether c must not be used again.
func (c *conn) old() bool { return !c.until.IsZero() && !time.Now().Before(c.until) }

// tooLong closes c if it is still idle. If the timer was stopped too late, c may
// be in use, or idle again. In the latter case it is closed early, which does no
// harm.
func (c *conn) tooLong() {
	c.mu.Lock()
	idle, expired := c.idle, c.expired
	if idle {
		c.lost.Store(true)
	}
	c.mu.Unlock()
	if !idle {
		return
	}
	if expired != nil {
		expired()
	}
	c.Close()
}

var errIdle = errors.New("forward: the connection was idle for too long")

func (c *conn) Write(p []byte) (int, error) {
	if c.lost.Load() {
		return 0, errIdle
	}
	n, err := c.Conn.Write(p)
	if !c.ending.Load() {
		c.wrote.Add(int64(n))
	}
	c.failed(err)
	return n, err
}

// lastResponse bounds how long a failed write waits for a response that came before it.
const lastResponse = time.Second

// outlast delays the error of a write until what the server has sent is read. A server that
// does not want a body can respond, and close the connection while the body arrives. Then
// the next write fails. net/http fails the request with whatever comes first, and closes
// the connection:
//
//	server: responds with 429, and closes the connection
//	writer: fails, and net/http returns its error
//	reader: has the 429, for which nothing waits any more
//
// No lock of TLS may be held.
func (c *conn) outlast() {
	if c.direct || c.closing.Load() {
		return
	}
	timer := time.NewTimer(lastResponse)
	defer timer.Stop()
	select {
	case <-c.over:
	case <-timer.C:
	}
}

func (c *conn) Read(p []byte) (int, error) {
	if !c.reads.TryLock() {
		return 0, net.ErrClosed // leave has it
	}
	defer c.reads.Unlock()
	if c.left.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(p)
	if !c.begun && n > 0 {
		c.begun = true
		if c.streams && bytes.HasPrefix(p[:n], []byte("HTTP/1.")) {
			c.http1.Store(true)
		}
	}
	c.failed(err)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.finish()
	}
	return n, err
}

// finish records that there is nothing more to read.
func (c *conn) finish() { c.once.Do(func() { close(c.over) }) }

// failed processes the errors of Read and Write.
func (c *conn) failed(err error) {
	if err != nil && !c.closing.Load() && !c.lost.Load() {
		c.down.Store(true)
	}
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.ending.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// Close closes c and notifies its last user. If the client of that has left while the
// server works for it, c is closed once the server has ended, too: see leave.
func (c *conn) Close() error {
	c.mu.Lock()
	a := c.user
	c.mu.Unlock()
	if c.leave(a) != nil {
		c.end()
		return nil
	}
	c.closing.Store(true)
	err := c.Conn.Close()
	c.end()
	return err
}

// end records that c is of no use any more, and notifies its last user.
func (c *conn) end() {
	c.finish()
	c.mu.Lock()
	a := c.user
	c.idle = false
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	if a != nil {
		a.broken()
	}
}

// CloseWrite closes the sending side, for a tunnel.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
