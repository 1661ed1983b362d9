package listen

import (
	"time"

	"github.com/weir-go/weir/weirhttp/stop"
)

const (
	// lookAfter is how long a request may take before its connection is watched. It is
	// watched between one and two lookAfter after its start.
	lookAfter = 20 * time.Millisecond
	// watched is how many bytes of the next requests are read while one is served.
	watched = 512
)

// A lookout detects that the client has left while its request is served, and then cancels
// the request (H17). net/http reads one byte on another goroutine for that, for each
// request. Here only a request that takes long gets such a read: one that is served at two
// consecutive looks. Looks are not tied to requests, so that a fast request sets no timer.
//
// If bytes of the next request are already here, there is no lookout: the client can have
// ended its side after its last request.
type lookout struct {
	timer *time.Timer   // guarded by fastConn.mu; nil before the first look is due
	due   bool          // guarded by fastConn.mu; timer is running
	turn  uint64        // guarded by fastConn.mu; counts the requests that can be watched
	seen  uint64        // guarded by fastConn.mu; turn at the last look
	ctx   *stop.Context // guarded by fastConn.mu; of the request being served; nil if there is none to watch
	watch *watching     // guarded by fastConn.mu; nil if nothing is being read
	set   bool          // guarded by fastConn.mu; the handler has set a read deadline
}

// A watching is a read from a connection whose request is being served.
type watching struct {
	done     chan struct{} // closed when the read has ended
	recalled bool          // guarded by fastConn.mu; the request is over
	early    []byte        // what was read; written before done is closed, read only after
}

// lookLocked starts to look after a request with that context. c.fast.mu must be held.
func (c *framedConn) lookLocked(ctx *stop.Context) {
	l := &c.fast.lookout
	l.ctx = ctx
	l.turn++
	if l.due {
		return
	}
	l.due, l.seen = true, l.turn
	if l.timer == nil {
		l.timer = time.AfterFunc(lookAfter, c.look)
	} else {
		l.timer.Reset(lookAfter)
	}
}

// look runs when the timer fires.
func (c *framedConn) look() {
	f := c.fast
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &f.lookout
	switch {
	case l.ctx != nil && l.seen != l.turn:
		l.seen = l.turn
		l.timer.Reset(lookAfter)
		return
	case l.ctx != nil:
		c.watchLocked()
	}
	l.due = false
}

// watchLocked starts to read from the connection. c.fast.mu must be held, and a request
// is being served.
func (c *framedConn) watchLocked() {
	l := &c.fast.lookout
	if l.ctx == nil || l.watch != nil {
		return
	}
	l.watch = &watching{done: make(chan struct{})}
	_ = c.Conn.SetReadDeadline(time.Time{}) // the idle time-out is not for requests; fails if the read does
	go c.watch(l.watch, l.ctx)
}

// watch reads from the connection until something arrives, it ends, or recall is called.
func (c *framedConn) watch(w *watching, ctx *stop.Context) {
	defer close(w.done)
	b := make([]byte, watched)
	n, err := c.Conn.Read(b)
	w.early = b[:n]
	c.fast.mu.Lock()
	defer c.fast.mu.Unlock()
	if err != nil && !w.recalled {
		ctx.Cancel(nil)
	}
}

// leaveLocked ends the lookout, and reports whether recall must be called, because the
// read deadline is not that of the connection any more. c.fast.mu must be held.
func (l *lookout) leaveLocked() bool {
	l.ctx = nil
	looked := l.set || l.watch != nil
	l.set = false
	if l.watch != nil {
		l.watch.recalled = true
	}
	return looked
}

// recall waits for the end of the read, if there is one, and returns what it has read.
func (c *framedConn) recall() []byte {
	f := c.fast
	f.mu.Lock()
	w := f.lookout.watch
	f.mu.Unlock()
	if w == nil {
		return nil
	}
	_ = c.Conn.SetReadDeadline(past) // fails if the connection is closed, which ends the read, too
	<-w.done
	f.mu.Lock()
	f.lookout.watch = nil
	f.mu.Unlock()
	return w.early
}

var past = time.Unix(1, 0)

// setReadDeadline is SetReadDeadline for the handler of the request that is being served,
// whose context is ctx.
// As with net/http, the request is canceled if nothing has arrived by then, and the
// deadline ends with the response.
func (c *framedConn) setReadDeadline(ctx *stop.Context, t time.Time) error {
	f := c.fast
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.servesLocked(ctx) {
		return errOver
	}
	c.watchLocked()
	f.lookout.set = true
	return c.Conn.SetReadDeadline(t)
}
