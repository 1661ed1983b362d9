package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/gateway"
)

const (
	gatewayConns = 32                    // connections that keep sending requests
	gatewayPaths = 64                    // paths of cached responses
	gatewayTurn  = 50 * time.Millisecond // how long each gateway is loaded in turn
	scrapeEvery  = time.Second           // of the time in which the watched gateway is loaded
)

// BenchmarkGateway measures how many hits per second a gateway serves over real
// connections. It compares what weir proxy has by default (hot keys, and a Prometheus
// scrape each second) with a gateway without these. The result is the median of
// turns, each of which loads the two gateways one right after the other. Both count
// durations, because that cannot be disabled. The clients are in the same process,
// and do as little as possible.
func BenchmarkGateway(b *testing.B) {
	benchGateway(b, func() *watch { return &watch{registry: prometheus.NewPedanticRegistry()} })
}

// BenchmarkGatewayOTel is the same with OpenTelemetry's metrics for calls and
// requests as well. Requests are counted as weir proxy counts them, without an
// instrument.
func BenchmarkGatewayOTel(b *testing.B) {
	benchGateway(b, func() *watch { return newWatch(b, false) })
}

func benchGateway(b *testing.B, look func() *watch) {
	b.Run("lib=weir", func(b *testing.B) {
		origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Cache-Control", "max-age=3600")
			io.WriteString(w, "a document of some forty bytes, or about")
		}))
		b.Cleanup(origin.Close)
		bare := openFront(b, origin.URL, nil)
		w := look()
		watched := openFront(b, origin.URL, w)

		var without, with, ratio []float64
		var since time.Duration
		for i := 0; b.Loop(); i++ {
			var collected sync.WaitGroup
			x, y := 0.0, 0.0
			ask := func() {
				if since += gatewayTurn; since >= scrapeEvery {
					since = 0
					collected.Go(func() { w.collect(b) })
				}
				y = watched.turn(b, 0)
				collected.Wait()
			}
			if i%2 == 0 { // alternate which one is first
				x = bare.turn(b, 0)
				ask()
			} else {
				ask()
				x = bare.turn(b, 0)
			}
			without, with, ratio = append(without, x), append(with, y), append(ratio, y/x)
		}
		b.ReportMetric(median(without), "bare-req/s")
		b.ReportMetric(median(with), "watched-req/s")
		b.ReportMetric(median(ratio), "watched/bare")
	})
}

// A front is a gateway with clients.
type front struct {
	conns []*conn
	stop  atomic.Bool // ends the current turn
}

// openFront opens a gateway with a warm cache in front of origin. If w is not nil, it
// observes the gateway.
func openFront(b *testing.B, origin string, w *watch) *front {
	b.Helper()
	c := gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "origin", Servers: []string{origin}}},
		Routes:    []gateway.Route{{Name: "all", HotKeys: -1}, {Name: "api", Path: "/api", HotKeys: -1}},
	}
	if w != nil {
		if w.otel != nil {
			c.Observer = w.otel.HTTP()
		}
		for i := range c.Routes {
			c.Routes[i].HotKeys = 0
		}
	}
	g, err := gateway.New(c)
	if err != nil {
		b.Fatal(err)
	}
	var h http.Handler = g
	if w != nil {
		w.prom.Gateway = g
		w.register(b)
		if w.otel != nil {
			if err := w.otel.AddGateway(g); err != nil {
				b.Fatal(err)
			}
			h = w.otel.Middleware("")(g)
		}
	}
	server := httptest.NewServer(h)
	b.Cleanup(func() {
		server.Close()
		if err := g.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	f := new(front)
	for i := range gatewayConns {
		f.conns = append(f.conns, dial(b, server.Listener.Addr().String(), i))
	}
	f.turn(b, gatewayPaths) // after this, all requested paths are cached
	if hits := g.Stats().Routes["all"]; hits.Calls != gatewayPaths || hits.Hits == 0 {
		b.Fatalf("%d calls for %d paths, %d hits; want one call each", hits.Calls, gatewayPaths, hits.Hits)
	}
	return f
}

// turn lets all clients send requests for a while, at least the given number each,
// and returns the responses per second.
func (f *front) turn(b *testing.B, least int) float64 {
	f.stop.Store(false)
	var answers atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for _, c := range f.conns {
		all.Go(func() {
			n, err := c.ask(&f.stop, least)
			if err != nil {
				b.Error(err)
			}
			answers.Add(int64(n))
		})
	}
	time.Sleep(gatewayTurn)
	f.stop.Store(true)
	all.Wait()
	return float64(answers.Load()) / time.Since(start).Seconds()
}

// A conn requests one path after another.
type conn struct {
	net.Conn
	in       *bufio.Reader
	requests [][]byte
	next     int
}

func dial(b *testing.B, address string, first int) *conn {
	b.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nc.Close() })
	c := &conn{Conn: nc, in: bufio.NewReader(nc), next: first}
	for i := range gatewayPaths {
		c.requests = append(c.requests, fmt.Appendf(nil, "GET /books/%d HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench\r\n\r\n", i))
	}
	return c
}

// ask sends requests until stop is set, and returns how many.
func (c *conn) ask(stop *atomic.Bool, least int) (n int, err error) {
	for ; n < least || !stop.Load(); n++ {
		if _, err := c.Write(c.requests[c.next%gatewayPaths]); err != nil {
			return n, err
		}
		c.next++
		if err := c.answer(); err != nil {
			return n, err
		}
	}
	return n, nil
}

var (
	okLine     = []byte("HTTP/1.1 200 ")
	lengthName = []byte("Content-Length: ")
)

// answer reads a response, which must have status 200 and a length.
func (c *conn) answer() error {
	length := -1
	for first := true; ; first = false {
		line, err := c.in.ReadSlice('\n')
		switch {
		case err != nil:
			return err
		case first && !bytes.HasPrefix(line, okLine):
			return fmt.Errorf("answered with %q", line)
		case bytes.HasPrefix(line, lengthName):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthName):]))); err != nil {
				return err
			}
		case len(line) == 2 && length < 0:
			return fmt.Errorf("a response without a length")
		case len(line) == 2:
			_, err := c.in.Discard(length)
			return err
		}
	}
}
