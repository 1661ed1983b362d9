package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

// Clients connect and leave at random while calls are in flight, over real
// connections. Nothing of them is left behind (H4, H6).
func TestH6_ClientsThatLeaveLeaveNothing(t *testing.T) {
	clients, atOnce := histories.Count(2_000, 10_000), histories.Count(500, 2_000)
	before := runtime.NumGoroutine()
	cache, err := weirhttp.NewCache(32 << 20)
	if err != nil {
		t.Fatal(err)
	}
	l := permits(t, limit.ConcurrencyOptions{Limit: 64, Queue: 4096})
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("own") != "" {
			w.Header().Set("Cache-Control", "no-store")
		} else if r.URL.Query().Get("kept") != "" {
			w.Header().Set("Cache-Control", "max-age=1")
		}
		for range 4 {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(5 * time.Millisecond):
			}
			_, _ = w.Write(make([]byte, 2000))
			w.(http.Flusher).Flush()
		}
	}), weirhttp.Options{Cache: cache, Limiter: l})
	if err != nil {
		t.Fatal(err)
	}
	var conns atomic.Int64
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ConnState: func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			conns.Add(1)
		case http.StateClosed, http.StateHijacked:
			conns.Add(-1)
		}
	}}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()

	var wg sync.WaitGroup
	var whole, left atomic.Int64
	next := make(chan int)
	for range atOnce {
		wg.Go(func() {
			for i := range next {
				if leaves(ln.Addr().String(), i) {
					left.Add(1)
				} else {
					whole.Add(1)
				}
			}
		})
	}
	for i := range clients {
		next <- i
	}
	close(next)
	wg.Wait()
	settled := func() bool {
		s := h.Stats()
		return s.InFlight == 0 && s.Waiting == 0 && conns.Load() == 0 && cache.Stats().Reserved == 0
	}
	for deadline := time.Now().Add(30 * time.Second); !settled() && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if s := h.Stats(); !settled() {
		t.Errorf("InFlight %d, Waiting %d, connections %d, Reserved %d; want 0, 0, 0, 0", s.InFlight, s.Waiting, conns.Load(), cache.Stats().Reserved)
	}
	if whole.Load() == 0 || left.Load() == 0 {
		t.Errorf("%d clients stayed and %d left; want some of each", whole.Load(), left.Load())
	}
	_ = server.Close()
	<-served
	if err := h.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(30 * time.Second); runtime.NumGoroutine() > before+4 && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if got := runtime.NumGoroutine(); got > before+4 {
		t.Errorf("%d goroutines at the end; %d before", got, before)
	}
	t.Logf("%d clients stayed, %d left; %+v", whole.Load(), left.Load(), h.Stats())
}

// leaves is one client. It reports whether it left before its response was complete.
func leaves(addr string, i int) bool {
	d := net.Dialer{LocalAddr: nil}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		return true
	}
	defer conn.Close()
	kind := []string{"", "own=1", "kept=1"}[rand.IntN(3)]
	_, _ = fmt.Fprintf(conn, "GET /%d?%s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", i/100, kind)
	if rand.IntN(2) == 0 {
		_ = conn.SetReadDeadline(time.Now().Add(time.Duration(rand.IntN(30)) * time.Millisecond))
	}
	_, err = io.Copy(io.Discard, conn)
	return err != nil
}
