package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// behindGateway starts a gateway with the default limits before an origin whose
// /big has 50 MB, over a real listener.
func behindGateway(t *testing.T, p func(*http.Protocols)) (*gateway.Gateway, *httptest.Server) {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path != "/big" {
			_, _ = io.WriteString(w, "ok")
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(50<<20))
		piece := make([]byte, 64<<10)
		for range 50 << 20 / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	t.Cleanup(origin.Close)
	g, err := gateway.New(gateway.Config{
		Upstreams: []gateway.Upstream{{Name: "app", Servers: []string{origin.URL}, Concurrency: 16}},
		Routes:    []gateway.Route{{Name: "all"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	front := httptest.NewUnstartedServer(g)
	front.Config.Protocols = new(http.Protocols)
	p(front.Config.Protocols)
	front.Start()
	t.Cleanup(front.Close)
	t.Cleanup(front.CloseClientConnections) // before Close, which waits for slow clients
	return g, front
}

// attack opens connections from different addresses, sends head on each, and then
// nothing, or a byte now and then, until the test is over.
func attack(t *testing.T, n int, address, head string, drips bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for i := range n {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+i%200))}}
		c, err := dialer.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		if _, err := io.WriteString(c, head); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer c.Close()
			for drips {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
					_, _ = io.WriteString(c, "x") // fails once it is cut
				}
			}
			<-ctx.Done()
		})
	}
}

// TestH24_SlowClientsKeepNobodyOut: four times as many as the upstream has permits,
// from 200 addresses, while another client is served.
func TestH24_SlowClientsKeepNobodyOut(t *testing.T) {
	for _, row := range []struct {
		name, head string
		drips      bool
	}{
		{"small bodies", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx", true},
		{"big bodies", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx", true},
		{"bodies of unknown length", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n", false},
		{"bodies that wait for a 100", "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n", false},
		{"readers", "GET /big HTTP/1.1\r\nHost: a\r\nCookie: a=b\r\n\r\n", false},
		{"readers of one thing", "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", false},
		{"heads", "GET / HTTP/1.1\r\nHost: ", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, front := behindGateway(t, func(p *http.Protocols) { p.SetHTTP1(true) })
			attack(t, 64, front.Listener.Addr().String(), row.head, row.drips)
			serveOthers(t, g, front)
		})
	}
}

func serveOthers(t *testing.T, g *gateway.Gateway, front *httptest.Server) {
	t.Helper()
	for i := range 50 {
		r, err := http.NewRequestWithContext(t.Context(), "GET", front.URL+fmt.Sprint("/x", i), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Cookie", "other=client")
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Fatalf("another client got %d; want 200", resp.StatusCode)
		}
	}
	if st := g.Stats().Routes["all"]; st.Failed != 0 || st.Broken != 0 {
		t.Errorf("Stats = %+v; want no fault of the origin", st)
	}
	for _, s := range g.Stats().Upstreams["app"].Servers {
		if s.Ejected {
			t.Error("the server was ejected for its clients")
		}
	}
}

// TestH24_StalledStreamsKeepNobodyOut: as many on one connection of HTTP/2 as it may
// have, whose windows are closed.
func TestH24_StalledStreamsKeepNobodyOut(t *testing.T) {
	g, front := behindGateway(t, func(p *http.Protocols) { p.SetHTTP1(true); p.SetUnencryptedHTTP2(true) })
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, HTTP2: &http.HTTP2Config{
		MaxReceiveBufferPerConnection: 64 << 20, MaxReceiveBufferPerStream: 64 << 10,
	}}
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for range 64 {
		all.Go(func() {
			r, _ := http.NewRequestWithContext(ctx, "GET", front.URL+"/big", nil)
			r.Header.Set("Cookie", "a=b")
			resp, err := transport.RoundTrip(r)
			if err != nil {
				return // the end of the test
			}
			defer resp.Body.Close()
			<-ctx.Done()
		})
	}
	for g.Stats().Upstreams["app"].Limit.Blocked < 8 {
		time.Sleep(time.Millisecond)
	}
	serveOthers(t, g, front)
}

// TestH24_ACutClientIsTold: 408, and that the connection ends.
func TestH24_ACutClientIsTold(t *testing.T) {
	g, front := behindGateway(t, func(p *http.Protocols) { p.SetHTTP1(true) })
	var clients []net.Conn
	for range 16 {
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	for g.Stats().Upstreams["app"].Limit.Blocked < 16 {
		time.Sleep(time.Millisecond)
	}
	serveOthers(t, g, front)
	if g.Stats().Routes["all"].Slow.CutBlocked == 0 {
		t.Fatal("nobody was cut")
	}
	told := make(chan *http.Response, len(clients))
	for _, c := range clients {
		go func() {
			if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				told <- resp
			}
		}()
	}
	if resp := <-told; resp.StatusCode != 408 || !resp.Close {
		t.Errorf("a client that was cut got %d, close %t; want 408 and the end", resp.StatusCode, resp.Close)
	}
}
