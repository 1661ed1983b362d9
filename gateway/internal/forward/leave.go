package forward

import (
	"context"
	"errors"
	"net"
	"time"
)

// maxWork is how long a connection is watched after its client has left, if the route
// has no time-out.
const maxWork = 10 * time.Minute

// leave ends the use of c by a, whose client has left before the response. It closes the
// sending side only, if the server may still work on the request: a server that notices
// when clients leave sees what it would see of a closed connection, and closes its side;
// one that does not will respond some time. Both end the channel that leave returns, and
// then c is closed. So the limit on calls counts what the server does, and not what this
// side has given up (H14, decision 0114).
//
// leave returns nil if the server is known not to work for a: nothing of the request was
// written, or the head of the response has arrived. In the latter case, the next write of
// the server fails.
func (c *conn) leave(a *attempt) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working != nil {
		if c.user == a {
			return c.working
		}
		return nil
	}
	half, ok := c.Conn.(interface{ CloseWrite() error })
	bound := a.work()
	if !ok || c.user != a || bound <= 0 || c.streams || c.awaited == "" || !c.sent || c.headed || c.closing.Load() || c.down.Load() {
		return nil
	}
	c.closing.Store(true)
	c.left.Store(true)
	if half.CloseWrite() != nil || c.Conn.SetReadDeadline(past) != nil {
		return nil // the server has closed it
	}
	c.working = make(chan struct{})
	c.finish()
	go c.outlive(c.working, bound)
	return c.working
}

// outlive closes c, and working, when the server has responded or closed its side, or
// after bound.
func (c *conn) outlive(working chan struct{}, bound time.Duration) {
	c.reads.Lock() // a Read in progress ends at its deadline; later ones read nothing
	defer c.reads.Unlock()
	if c.Conn.SetReadDeadline(time.Now().Add(bound)) == nil {
		var b [1]byte
		_, _ = c.Conn.Read(b[:]) // whatever comes is the end of the work
	}
	close(working)
	c.Conn.Close()
}

// work returns how long the server may go on working for a after its client has left; 0
// if that is over, or not of interest.
func (a *attempt) work() time.Duration {
	if a == nil || a.relay == nil || a.relay.f.Work == 0 {
		return 0
	}
	ctx := a.req.Context()
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), errOver) {
		return 0
	}
	if a.relay.f.Work < 0 {
		return maxWork
	}
	return a.relay.f.Work
}

// left tells the relay what is known of the server's work for a, which has ended without
// a response because its client has left.
func (a *attempt) left() {
	c := a.conn
	if a.work() == 0 || c == nil {
		return
	}
	if c.streams {
		a.relay.sent = a.written.Load()
		return
	}
	if a.relay.working = c.leave(a); a.relay.working != nil {
		a.relay.sent = true
	}
}

var _ net.Conn = (*conn)(nil)
