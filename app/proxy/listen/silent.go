package listen

import (
	"net"
	"sync"
)

// silent holds the connections whose clients have sent nothing yet: nothing at all during
// the TLS handshake, and no byte of a request after it. Browsers open such connections in
// advance. net/http's Shutdown waits five seconds for each, since a request could be on its
// way; Retire has waited for that before.
type silent struct {
	mu    sync.Mutex
	conns map[net.Conn]struct{} // guarded by mu
}

func (s *silent) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conns == nil {
		s.conns = map[net.Conn]struct{}{}
	}
	s.conns[c] = struct{}{}
}

func (s *silent) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// close closes all of them.
func (s *silent) close() {
	s.mu.Lock()
	all := s.conns
	s.conns = nil
	s.mu.Unlock()
	for c := range all {
		_ = c.Close() // its client waits for nothing
	}
}

// A shyConn is a connection in its TLS handshake.
type shyConn struct {
	*progressConn
	silent *silent
	heard  bool // used by the reader; something was read
}

func (c *shyConn) Read(p []byte) (int, error) {
	n, err := c.progressConn.Read(p)
	if !c.heard && (n > 0 || err != nil) {
		c.heard = true
		c.silent.remove(c)
	}
	return n, err
}
