package choose

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxClients = 1024
	clientFor  = 10 * time.Second
)

// clients remembers clients whose latest requests have failed, in a table of fixed size. A
// client that fails at two servers without a success in between is a failing client, and
// proves nothing about servers: one that guesses passwords would otherwise make server after
// server look bad.
//
// A client for which there is no room counts as a new one.
type clients [maxClients]struct {
	client atomic.Uint64 // 0 for none; written under mu
	mu     sync.Mutex
	server *Server // guarded by mu: where it has failed
	spread bool    // guarded by mu: also at another one
	at     Instant // guarded by mu
}

// good records that the client was answered well.
func (t *clients) good(client uint64) {
	e := &t[client%maxClients]
	if client == 0 || e.client.Load() != client {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client.Load() == client {
		e.client.Store(0)
	}
}

// failed records a failure of the client at s, and reports whether it is evidence against s.
func (t *clients) failed(now Instant, client uint64, s *Server) bool {
	if client == 0 {
		return true
	}
	e := &t[client%maxClients]
	e.mu.Lock()
	defer e.mu.Unlock()
	current := e.client.Load()
	old := now > e.at.add(clientFor)
	switch {
	case current != client && current != 0 && !old:
		return true
	case current != client || old:
		e.client.Store(client)
		e.server, e.spread = s, false
	case e.server != s:
		e.spread = true
	}
	e.at = now
	return !e.spread
}
