package load

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/http"
)

// A host is the destination of connections.
type host struct {
	address string // host:port
	name    string // the name that its certificate must have, for TLS; empty: no TLS
}

// A target is a prepared request.
type target struct {
	url  string
	host int    // its index among the hosts
	text []byte // the bytes to send
}

// targets returns the requests of a Spec and their hosts.
func targets(s Spec) ([]target, []host, error) {
	var all []target
	var hosts []host
	known := make(map[host]int)
	for _, u := range s.URLs {
		req, err := http.NewRequest(http.MethodGet, u, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("load: %w", err)
		}
		req.Header.Set("User-Agent", "weir-lab")
		for name, value := range s.Header {
			req.Header.Set(name, value)
		}
		if h := req.Header.Get("Host"); h != "" {
			req.Host = h // Request.Host takes precedence over the header
		}
		req.Close = s.NoKeepAlive
		var text bytes.Buffer
		if err := req.Write(&text); err != nil {
			return nil, nil, fmt.Errorf("load: %s: %w", u, err)
		}
		h := host{address: net.JoinHostPort(req.URL.Hostname(), cmp.Or(req.URL.Port(), "80"))}
		if req.URL.Scheme == "https" {
			h = host{net.JoinHostPort(req.URL.Hostname(), cmp.Or(req.URL.Port(), "443")), req.URL.Hostname()}
		}
		if _, ok := known[h]; !ok {
			known[h] = len(hosts)
			hosts = append(hosts, h)
		}
		all = append(all, target{url: u, host: known[h], text: text.Bytes()})
	}
	return all, hosts, nil
}
