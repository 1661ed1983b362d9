package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// Clients that come and leave when they please, 2,000 at a time, over both
// protocols, while their calls are queued, on their way, or in the middle of the
// answer. When the last has left there is nothing of them: no goroutine, no
// waiter, no permit, no call, no buffer, and no connection to the origin.
func TestField_ClientsThatLeaveLeaveNothing(t *testing.T) {
	const all, budget = 10_000, 10 * time.Second
	atOnce := 2_000
	if raced {
		atOnce = 300
	}
	var calls atomic.Int64
	conns := newConnCount()
	o := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		brief(r.Context(), rand.N(30*time.Millisecond))
		switch rand.N(4) {
		case 0:
			w.Header().Set("Cache-Control", "max-age=60")
		case 1:
			w.Header().Set("Cache-Control", "no-store")
		}
		for range 4 {
			w.Write(make([]byte, 2<<10))
			w.(http.Flusher).Flush()
			brief(r.Context(), rand.N(5*time.Millisecond))
		}
	}))
	o.Config.ConnState = conns.state
	o.Start()
	defer o.Close()

	before := runtime.NumGoroutine()
	c := config(gateway.Upstream{Name: "main", Servers: []string{o.URL}, Concurrency: 100, Queue: 500, IdleConn: 50 * time.Millisecond, ConnectTimeout: patience})
	g, err := gateway.New(c)
	if err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(g)
	crypt := httptest.NewUnstartedServer(g)
	crypt.EnableHTTP2 = true
	crypt.StartTLS()
	s := &site{t: t, g: g, url: plain.URL, client: plain.Client()}

	var pool []*http.Client // for HTTP/2: a connection for each
	for range 20 {
		transport := crypt.Client().Transport.(*http.Transport).Clone()
		pool = append(pool, &http.Client{Transport: transport})
	}
	began, places := time.Now(), make(chan struct{}, atOnce)
	var clients sync.WaitGroup
	var came, whole atomic.Int64
	for i := 0; i < atOnce || i < all && time.Since(began) < budget; i++ {
		places <- struct{}{}
		clients.Go(func() {
			defer func() { <-places }()
			came.Add(1)
			// A client that does not leave has enough time to finish on a busy
			// machine.
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if rand.N(3) > 0 {
				stop := time.AfterFunc(rand.N(300*time.Millisecond), cancel)
				defer stop.Stop()
			}
			path := fmt.Sprint("/", rand.N(20), "-", i/500)
			ok := false
			if i%2 == 0 {
				ok = comeAndGo(ctx, strings.TrimPrefix(plain.URL, "http://"), path)
			} else {
				ok = askAndGo(ctx, pool[i%len(pool)], crypt.URL+path)
			}
			if ok {
				whole.Add(1)
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	for _, client := range pool {
		client.CloseIdleConnections()
	}
	s.until("nothing is under way", func() bool {
		st := s.stats()
		u := s.g.Stats().Upstreams["main"]
		return st.InFlight == 0 && st.Waiting == 0 && u.Limit.InUse == 0 && u.Limit.Queued == 0 && u.Servers[0].InFlight == 0 &&
			g.Cache().Stats().Reserved == 0
	})
	s.until("the origin has no connection", func() bool { return conns.open() == 0 })
	t.Logf("%d clients in %v, %d of them to the end: %d calls, %+v", came.Load(), took, whole.Load(), calls.Load(), s.stats())
	if n := came.Load(); n < int64(atOnce) || whole.Load() == 0 || s.stats().Left == 0 || s.stats().Joined == 0 || s.stats().Abandoned == 0 {
		t.Errorf("%d clients, %d to the end, %+v; want some of each kind", n, whole.Load(), s.stats())
	}
	// Every permit can be had again.
	s.all(s.crowd(100, func(i int) *http.Request { return s.request("HEAD", fmt.Sprint("/after/", i), nil) })(), 200, "")

	s.client.CloseIdleConnections()
	plain.Close()
	crypt.Close()
	if err := g.Close(t.Context()); err != nil {
		t.Errorf("Close = %v", err)
	}
	for end := time.Now().Add(patience); conns.open() > 0 || runtime.NumGoroutine() > before; {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before; %d connections at the origin\n%s", runtime.NumGoroutine(), before, conns.open(), stacks[:runtime.Stack(stacks, true)])
		}
		brief(t.Context(), 5*time.Millisecond)
	}
}

// brief waits for d, or until ctx ends.
func brief(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// comeAndGo asks over a connection of its own, and closes it when ctx ends. It
// reports whether it had a whole answer.
func comeAndGo(ctx context.Context, addr, path string) bool {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h.test\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil
}

func askAndGo(ctx context.Context, client *http.Client, url string) bool {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(r)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil
}

// A connCount counts a server's open connections.
type connCount struct {
	mu  sync.Mutex
	now map[net.Conn]bool // guarded by mu
}

func newConnCount() *connCount { return &connCount{now: map[net.Conn]bool{}} }

func (n *connCount) state(c net.Conn, s http.ConnState) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s == http.StateClosed || s == http.StateHijacked {
		delete(n.now, c)
	} else {
		n.now[c] = true
	}
}

func (n *connCount) open() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.now)
}
