package forward

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A conn is a connection to a server, below TLS. It counts what is written, and
// closes itself when it has been idle for too long, unless it carries streams
// (HTTP/2, which does that itself).
//
// A request and the timer may want the same idle conn at once:
//
//	timer:   finds it idle, and marks it lost
//	request: takes it; it is lost, so Write refuses, and nothing is written
//	timer:   closes it
//	request: fails with nothing written, and is sent on another
//
// In the other order the timer finds it taken and does nothing.
type conn struct {
	net.Conn
	tls     *tls.ConnectionState // nil without TLS
	streams bool
	wrote   atomic.Int64 // bytes of requests (and of a TLS handshake)
	// ending is set when TLS says goodbye: crypto/tls sets a deadline before it
	// does, and net/http never sets one. What follows is no request's.
	ending atomic.Bool
	begun  bool        // by the reader: something was read
	old    atomic.Bool // what came first is an answer of HTTP/1, on a connection for HTTP/2
	lost   atomic.Bool // set under mu, read without: Write is not to wait for it
	// closing is set when we close it, and down when it failed before that, which
	// is the server's doing. Atomic, as a Read can be anywhere then.
	closing, down atomic.Bool

	mu   sync.Mutex
	user *attempt // guarded by mu: who took it last
	// What the answer to user's request is waited for with: see framed.
	awaited string        // guarded by mu: its method, "" if it has come or there is none
	sent    bool          // guarded by mu: some of the request was written
	some    bool          // guarded by mu: some of the answer has come
	idle    bool          // guarded by mu
	keep    time.Duration // guarded by mu: how long it may be idle
	timer   *time.Timer   // guarded by mu; nil until it was idle
	expired func()        // guarded by mu: called when it was idle for too long; may be nil
}

// unused starts the clock of a connection that was just opened: it may turn out
// that nobody needs it.
func (c *conn) unused() {
	if !c.streams {
		c.put(nil)
	}
}

// take says that a's request will be written, and returns how much was before.
func (c *conn) take(a *attempt, method string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.user, c.idle = a, false
	c.awaited, c.sent, c.some = cmp.Or(method, "GET"), false, false
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.wrote.Load()
}

// onExpired has fn called when c was idle for too long, before it is closed.
func (c *conn) onExpired(fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expired = fn
}

// put says that a has no more use for c. Somebody else may have taken it by now.
func (c *conn) put(a *attempt) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.user == a {
		c.idle = true
		c.waitLocked()
	}
}

// setKeep sets how long the server lets a's connection be idle.
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
	if c.timer == nil {
		c.timer = time.AfterFunc(c.keep, c.tooLong)
		return
	}
	c.timer.Reset(c.keep)
}

// tooLong closes c if it is idle still. A timer that was stopped too late finds
// it taken, or idle anew; then it closes c before its time, which does no harm.
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

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.begun && n > 0 {
		c.begun = true
		if c.streams && bytes.HasPrefix(p[:n], []byte("HTTP/1.")) {
			c.old.Store(true)
		}
	}
	c.failed(err)
	return n, err
}

// failed receives what Read and Write return.
func (c *conn) failed(err error) {
	if err != nil && !c.closing.Load() && !c.lost.Load() {
		c.down.Store(true)
	}
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.ending.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// Close also tells the last user of c.
func (c *conn) Close() error {
	c.closing.Store(true)
	c.mu.Lock()
	a := c.user
	c.idle = false
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	err := c.Conn.Close()
	if a != nil {
		a.broken()
	}
	return err
}

// CloseWrite ends what is sent, for a tunnel.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
