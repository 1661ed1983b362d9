package load

import (
	"bytes"
	"cmp"
	"fmt"
	"net"
	"net/http"
)

// A host is where connections go.
type host struct {
	address string // host:port
	name    string // what its certificate must name, for TLS; empty: plain
}

// A target is a request, written out.
type target struct {
	url  string
	host int    // its index among the hosts
	text []byte // what is sent
}

// targets returns the requests of a Spec and the hosts that they go to.
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
			req.Host = h // the field wins over the header
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
