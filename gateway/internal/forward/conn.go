package forward

import (
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
	streams bool
	wrote   atomic.Int64 // bytes of requests (and of a TLS handshake)
	// ending is set when TLS says goodbye: crypto/tls sets a deadline before it
	// does, and net/http never sets one. What follows is no request's.
	ending atomic.Bool
	lost   atomic.Bool // set under mu, read without: Write is not to wait for it

	mu    sync.Mutex
	user  *attempt      // guarded by mu: who took it last
	idle  bool          // guarded by mu
	keep  time.Duration // guarded by mu: how long it may be idle
	timer *time.Timer   // guarded by mu; nil until it was idle
}

// unused starts the clock of a connection that was just opened: it may turn out
// that nobody needs it.
func (c *conn) unused() {
	if !c.streams {
		c.put(nil)
	}
}

// take says that a's request will be written, and returns how much was before.
func (c *conn) take(a *attempt) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.user, c.idle = a, false
	if c.timer != nil {
		c.timer.Stop()
	}
	return c.wrote.Load()
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

// setKeep is told how long the server lets a's connection be idle.
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
	idle := c.idle
	if idle {
		c.lost.Store(true)
	}
	c.mu.Unlock()
	if idle {
		c.Close()
	}
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
	return n, err
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.ending.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// Close also tells whoever used c last.
func (c *conn) Close() error {
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
