package upstream

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync"
	"time"
)

// A Probe is the result of one test request to a server.
type Probe struct {
	Method, Target string        // of the request
	Address        string        // the address connected to, empty if there was no connection
	Connected      time.Duration // until the connection was open, including the TLS handshake
	TLS            *tls.ConnectionState
	Protocol       string        // of the response
	Status         int           // of the response, 0 for none
	Answered       time.Duration // until the response, from the start
	Healthy        bool
	Err            error
}

// ProbeServer requests the health check's path from a server of o once, over a new
// connection. Without a path it requests OPTIONS *, which has no effect (RFC 9110, section
// 9.3.7) and to which any response counts as healthy.
func ProbeServer(ctx context.Context, o Options, server *url.URL, open func(*url.URL, netip.AddrPort, Options) (Transport, error)) Probe {
	p := Probe{Method: http.MethodOptions, Target: "*"}
	if o.Health.Path != "" {
		p.Method, p.Target = http.MethodGet, o.Health.Path
	}
	t, err := open(server, netip.AddrPort{}, o)
	if err != nil {
		p.Err = err
		return p
	}
	defer t.Close()
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout+o.Health.Timeout)
	defer cancel()
	began := time.Now()
	var mu sync.Mutex // net/http may still be dialling when the response arrives
	var address string
	var connected time.Duration
	resp, err := ask(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		mu.Lock()
		defer mu.Unlock()
		address, connected = info.Conn.RemoteAddr().String(), time.Since(began)
	}}), t, server, keyOf(server, o).as, p.Method, p.Target)
	mu.Lock()
	defer mu.Unlock()
	p.Address, p.Connected, p.Err = address, connected, err
	if err != nil {
		return p
	}
	p.TLS, p.Protocol, p.Status, p.Answered = resp.TLS, resp.Proto, resp.StatusCode, time.Since(began)
	p.Healthy = o.Health.Path == "" || healthy(resp.StatusCode)
	return p
}
