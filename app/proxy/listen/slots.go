package listen

import (
	"net"
	"sync"
)

// Slots bound the number of concurrent connections, over all listeners that share them.
// Beyond the bound, new connections wait in the kernel's queue. A nil *Slots is no
// bound.
type Slots struct {
	mu    sync.Mutex
	moved *sync.Cond // of mu; a slot was returned, the bound changed, or a listener closed
	most  int        // guarded by mu; 0 means no bound
	taken int        // guarded by mu
}

// NewSlots returns Slots for most connections. 0 means no bound.
func NewSlots(most int) *Slots {
	s := &Slots{most: most}
	s.moved = sync.NewCond(&s.mu)
	return s
}

// SetMost changes the bound. Connections beyond the new bound stay open.
func (s *Slots) SetMost(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.most = most
	s.moved.Broadcast()
}

// Taken returns the number of open connections.
func (s *Slots) Taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// A slotListener accepts a connection when a slot is free.
type slotListener struct {
	net.Listener
	slots *Slots

	closed bool // guarded by slots.mu
	cut    bool // guarded by slots.mu: connections that arrive now are cut off, too
}

func newSlotListener(l net.Listener, s *Slots) *slotListener {
	if s == nil {
		s = NewSlots(0)
	}
	return &slotListener{Listener: l, slots: s}
}

// Accept waits for a connection, and then for a slot: at most one connection waits
// here, and the others in the kernel.
func (l *slotListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.take() {
		c.Close()
		return nil, net.ErrClosed
	}
	return &slotConn{Conn: c, l: l}, nil
}

// take waits for a slot. Once the listener is closed, it takes a slot beyond the bound:
// a connection that was accepted while the listener closed is a client with a request
// on its way, and closing it would lose the request. take returns false once
// connections are cut off.
func (l *slotListener) take() bool {
	s := l.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	for !l.closed && s.most > 0 && s.taken >= s.most {
		s.moved.Wait()
	}
	if l.cut {
		return false
	}
	s.taken++
	return true
}

func (l *slotListener) give() {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	l.slots.taken--
	l.slots.moved.Broadcast()
}

// close ends the wait for a slot. It does not close the socket.
func (l *slotListener) close() {
	l.slots.mu.Lock()
	defer l.slots.mu.Unlock()
	l.closed = true
	l.slots.moved.Broadcast()
}

// cutOff is close for a server that cuts off its connections.
func (l *slotListener) cutOff() {
	l.slots.mu.Lock()
	l.cut = true
	l.slots.mu.Unlock()
	l.close()
}

// Close also closes the socket.
func (l *slotListener) Close() error {
	l.close()
	return l.Listener.Close()
}

// A slotConn returns its slot when it is closed.
type slotConn struct {
	net.Conn
	l    *slotListener
	once sync.Once
}

func (c *slotConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.l.give)
	return err
}
