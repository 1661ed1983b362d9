package scenarios

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/weir-go/weir/lab/internal/cert"
	"github.com/weir-go/weir/lab/scenario"
)

// The services of the gateway's grid in the lab's own program: the origin, the handler
// with a constant response, and two small proxies.
const (
	gridOrigin  = "origin of the grid"
	byReverse   = "ReverseProxy"
	byFasthttp  = "fasthttp"
	originCalls = "calls to the origin"
)

// A peerSetup configures one of these services. All but the origin also listen with
// TLS.
type peerSetup struct {
	TLS     cert.Pair
	Origin  string                // host:port
	Answers map[string]peerAnswer // by path, of the handler with constant responses
}

type peerAnswer struct {
	Header http.Header
	Body   []byte
}

// An entrance holds the addresses of a service, host:port.
type entrance struct{ Plain, Secure string }

// peerService serves one of the services. Control returns its entrance.
func peerService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	var set peerSetup
	if err := o.Decode(&set); err != nil {
		return nil, err
	}
	svc := &scenario.Service{Handler: http.NotFoundHandler()} // it has its own listeners
	var serve func(net.Listener) error
	switch o.Variant {
	case gridOrigin:
		var calls atomic.Int64
		serve = fastServer(func(c *fasthttp.RequestCtx) { calls.Add(1); answerGrid(c) })
		svc.Reset = func(context.Context) error { calls.Store(0); return nil }
		svc.Values = func() map[string]float64 { return map[string]float64{originCalls: float64(calls.Load())} }
	case bareHandler:
		serve = standardServer(set.constant())
	case byReverse:
		serve = standardServer(set.reverseProxy())
	case byFasthttp:
		serve = fastServer(set.forward())
	default:
		return nil, fmt.Errorf("scenarios: there is no peer %q", o.Variant)
	}
	at, end, err := set.listen(ctx, serve)
	if err != nil {
		return nil, err
	}
	svc.Close = end
	svc.Control = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(at) //nolint:errcheck // the lab has left
	})
	return svc, nil
}

// listen serves on a port without TLS and, with a certificate, on one with TLS, for
// HTTP/1.1 and HTTP/2. end closes both.
func (p peerSetup) listen(ctx context.Context, serve func(net.Listener) error) (at entrance, end func(), err error) {
	var all []net.Listener
	end = func() {
		for _, l := range all {
			l.Close() //nolint:errcheck // the process ends
		}
	}
	open := func() (net.Listener, string, error) {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, "", err
		}
		all = append(all, l)
		return l, l.Addr().String(), nil
	}
	l, address, err := open()
	if err != nil {
		return at, end, err
	}
	at.Plain = address
	go serve(l) //nolint:errcheck // ended by end
	if p.TLS.Cert == nil {
		return at, end, nil
	}
	pair, err := tls.X509KeyPair(p.TLS.Cert, p.TLS.Key)
	if err != nil {
		return at, end, err
	}
	if l, at.Secure, err = open(); err != nil {
		return at, end, err
	}
	go serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}})) //nolint:errcheck // as above
	return at, end, nil
}

// standardServer serves h with net/http.
func standardServer(h http.Handler) func(net.Listener) error {
	return func(l net.Listener) error {
		s := &http.Server{Handler: h, ReadHeaderTimeout: 30 * time.Second}
		return s.Serve(l)
	}
}

// fastServer serves h with fasthttp, which has no HTTP/2.
func fastServer(h fasthttp.RequestHandler) func(net.Listener) error {
	return func(l net.Listener) error {
		s := &fasthttp.Server{Handler: h, NoDefaultServerHeader: true}
		return s.Serve(l)
	}
}

// gridBody is the body of all responses, up to its length.
var gridBody = []byte(strings.Repeat("the weir keeper ", 1<<20/16))

// gridTag is their ETag.
const gridTag = `"1911"`

// gridPath returns the path of a response of that length. A kept response can be
// stored.
func gridPath(kept bool, length int) string {
	kind := "pass"
	if kept {
		kind = "kept"
	}
	return fmt.Sprintf("/%s/%d", kind, length)
}

// answerGrid is the origin: it is fast, so that the proxies decide the result.
func answerGrid(c *fasthttp.RequestCtx) {
	kind, length, _ := strings.Cut(strings.TrimPrefix(string(c.Path()), "/"), "/")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n > len(gridBody) {
		c.SetStatusCode(http.StatusNotFound)
		return
	}
	keep := "no-store"
	if kind == "kept" {
		keep = "public, max-age=3600" // public: also for requests with cookies
	}
	c.Response.Header.Set("Cache-Control", keep)
	c.Response.Header.Set("Etag", gridTag)
	c.SetContentType("text/plain; charset=utf-8")
	c.SetBody(gridBody[:n])
}

// constant returns a handler with constant responses.
func (p peerSetup) constant() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := p.Answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		for name, values := range a.Header {
			h[name] = values
		}
		w.Write(a.Body) //nolint:errcheck // the client is gone
	})
}

// reverseProxy is the standard library's proxy, as its documentation shows it, with
// as many idle connections as the other proxies keep.
func (p peerSetup) reverseProxy() http.Handler {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, idleAtOrigin
	origin := &url.URL{Scheme: "http", Host: p.Origin}
	return &httputil.ReverseProxy{Transport: t, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(origin)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}}
}

// idleAtOrigin is the number of idle connections to the origin that each proxy keeps.
const idleAtOrigin = 256

// forward is a proxy with fasthttp's server and client, which buffers bodies.
func (p peerSetup) forward() fasthttp.RequestHandler {
	client := &fasthttp.HostClient{Addr: p.Origin, MaxConns: 4 * idleAtOrigin, NoDefaultUserAgentHeader: true, DisablePathNormalizing: true}
	return func(c *fasthttp.RequestCtx) {
		c.Request.Header.Del("Connection")
		c.Request.URI().SetScheme("http") // as the origin's
		if err := client.Do(&c.Request, &c.Response); err != nil {
			c.Error(err.Error(), http.StatusBadGateway)
			return
		}
		c.Response.Header.Del("Connection")
	}
}
