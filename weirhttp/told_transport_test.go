package weirhttp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

func TestC9_CallsOfATransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := new(tracer)
		c, _ := transport(t, weirhttp.Options{Observer: tr}, func(r *http.Request) (*http.Response, error) {
			if got := r.Header.Get("Traceparent"); got != fmt.Sprint("call-", number(r.Context())) {
				t.Errorf("the call with context %d has Traceparent %q", number(r.Context()), got)
			}
			time.Sleep(slow)
			return plain(r, 200, "x", "Cache-Control", "max-age=60"), nil
		})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				r, err := http.NewRequestWithContext(t.Context(), "GET", "http://shop.example/a", nil)
				if err != nil {
					t.Error(err)
					return
				}
				resp, err := c.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if len(r.Header) > 0 || len(resp.Request.Header.Values("Traceparent")) > 0 {
					t.Errorf("the client's request has %v", resp.Request.Header)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		tr.wantPairs(t, 1)
		if _, _, waits := tr.told(); len(waits) != 2 || number(waits[0].Call) != 1 {
			t.Errorf("waits = %+v; want two for call 1", waits)
		}
	})
}

func TestC9_UpgradesOfATransport(t *testing.T) {
	addr := listening(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Traceparent") != "call-1" {
			t.Errorf("Traceparent = %q; want call-1", r.Header.Get("Traceparent"))
		}
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		_ = rw.Flush()
		_, _ = rw.ReadByte()
	}))
	tr := new(tracer)
	tp, err := weirhttp.NewTransport(nil, weirhttp.Options{Observer: tr})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+addr+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "echo")
	resp, err := tp.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, ends, _ := tr.told(); len(ends) != 0 || resp.Request != r || r.Header.Get("Traceparent") != "" {
		t.Errorf("%d ends, the request is %+v; want no end, and the client's request", len(ends), resp.Request)
	}
	_ = resp.Body.Close()
	_ = resp.Body.Close()
	if end := tr.wantPairs(t, 1)[0]; end.Status != 101 || end.Err != nil {
		t.Errorf("CallEnd = %+v; want 101", end)
	}
	if n := tp.RequestTimes().Count + tp.CallTimes().Count; n != 0 {
		t.Errorf("%d durations; want none", n)
	}
}

// TestC9_AnUpgradeEndsWithItsConnection: the handler has taken over the connection.
func TestC9_AnUpgradeEndsWithItsConnection(t *testing.T) {
	tr, left := new(tracer), make(chan struct{})
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_ = rw.Flush()
		_, _ = rw.ReadByte()
	}), weirhttp.Options{Observer: tr})
	if err != nil {
		t.Fatal(err)
	}
	addr := listening(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		h.ServeHTTP(w, r)
	}))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
		t.Error(err)
	}
	if _, ends, _ := tr.told(); len(ends) != 0 {
		t.Errorf("ends = %+v while the connection is open; want none", ends)
	}
	_ = conn.Close()
	<-left
	if end := tr.wantPairs(t, 1)[0]; end.Status != 101 || end.Err != nil {
		t.Errorf("CallEnd = %+v; want 101", end)
	}
}
