package gateway

import (
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/upstream"
)

// A Probe is the result of one request to a server: see [Upstream.Probe].
type Probe struct {
	Server    string               // as it stands in Upstream.Servers
	Asked     string               // the method and the target of the request
	Address   string               // of the connection, host and port; empty if there was none
	Connected time.Duration        // time until the connection was open, including the TLS handshake
	TLS       *tls.ConnectionState // state of the connection, nil without TLS
	Protocol  string               // of the response, such as "HTTP/2.0"
	Status    int                  // of the response, 0 if there was none
	Answered  time.Duration        // time from the start until the response
	Healthy   bool                 // the Gateway would use the server
	Err       error                // why there was no response
}

// maxProbes is how many servers are probed at once.
const maxProbes = 16

// Probe tries all servers of u once, over new connections, with the TLS and the
// timeouts that a Gateway would use, and returns the results in the order of Servers. It
// requests Health.Path with GET or, without a path, OPTIONS *, to which any response counts
// as healthy. It takes at most ConnectTimeout plus Health.Timeout for each 16 servers.
func (u Upstream) Probe(ctx context.Context) []Probe {
	o := u.poolOptions()
	out := make([]Probe, len(u.Servers))
	slots := make(chan struct{}, maxProbes)
	var running sync.WaitGroup
	for i, text := range u.Servers {
		server, _, ok := parseServer(text)
		if !ok {
			out[i] = Probe{Server: text, Err: &OptionError{Package: "gateway", Field: index("Servers", i), Value: quoted(text), Bound: "a base URL without a path"}}
			continue
		}
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			p := upstream.ProbeServer(ctx, o, server, openTransport)
			out[i] = Probe{
				Server: text, Asked: p.Method + " " + p.Target, Address: p.Address, Connected: p.Connected,
				TLS: p.TLS, Protocol: p.Protocol, Status: p.Status, Answered: p.Answered, Healthy: p.Healthy, Err: p.Err,
			}
		})
	}
	running.Wait()
	return out
}
