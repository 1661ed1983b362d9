package embedded

import (
	"crypto/subtle"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// A gate lets other programs in once the server has recovered its files and these have
// been compared. Until then they wait, or the server ends their connection after its
// time-out for authentications, and they try again. Connections of this process pass.
type gate struct {
	token string

	mu   sync.Mutex
	open chan struct{} // guarded by mu; closed while the gate is open
}

var _ server.Authentication = (*gate)(nil)

func newGate(token string) *gate { return &gate{token: token, open: make(chan struct{})} }

// Check implements server.Authentication.
func (g *gate) Check(c server.ClientAuthentication) bool {
	if a := c.RemoteAddress(); a == nil || a.Network() != "pipe" {
		g.mu.Lock()
		open := g.open
		g.mu.Unlock()
		<-open // see shut
	}
	return subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(g.token)) == 1 || g.token == ""
}

// let opens the gate.
func (g *gate) let() {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

// shut closes the gate. Programs that wait at it are let through to a server that has stopped.
func (g *gate) shut() {
	g.let()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = make(chan struct{})
}
