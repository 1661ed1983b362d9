package listen_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// A waiter is a handler whose requests for /wait wait until they are canceled or released.
// Requests for /sleep take longer than a request whose client is not watched.
type waiter struct {
	begun   chan struct{}
	release chan struct{}
	ended   chan error // the cause with which /wait was canceled, nil if it was released
}

func newWaiter() *waiter {
	return &waiter{make(chan struct{}, 9), make(chan struct{}), make(chan error, 9)}
}

func (h *waiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/wait":
		h.begun <- struct{}{}
		var err error
		select {
		case <-h.release:
		case <-r.Context().Done():
			err = context.Cause(r.Context())
		}
		h.ended <- err
	case "/sleep":
		<-time.After(100 * time.Millisecond)
	}
	fmt.Fprint(w, "GET ", r.URL.Path)
}

// waits returns a connection on which a request for /wait is being served without
// net/http, unless c says otherwise.
func waits(t *testing.T, c listen.Config, h *waiter) (*listen.Server, net.Conn) {
	t.Helper()
	served := new(atomic.Uint64)
	s := serve(t, c, listen.Options{Handler: h, Fast: served})
	for range 20 { // on a busy machine net/http can still be reading ahead
		conn := dial(t, s)
		if c.TLS.Cert != "" {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		}
		io.WriteString(conn, first)
		until(t, conn, "GET /first")
		<-time.After(10 * time.Millisecond) // until the connection is idle
		io.WriteString(conn, get("/wait"))
		<-h.begun
		if !c.FastPath || served.Load() > 0 {
			return s, conn
		}
		h.release <- struct{}{}
		<-h.ended
	}
	t.Fatal("no request was served without net/http")
	return nil, nil
}

// canceled waits until the request for /wait is canceled.
func (h *waiter) canceled(t *testing.T) {
	t.Helper()
	select {
	case err := <-h.ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the request ended with %v; want it canceled", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the request was not canceled")
	}
}

// H31: a request is canceled when its client leaves, in any way, also over TLS.
func TestH31_ClientLeaves(t *testing.T) {
	for _, fast := range []bool{true, false} {
		for _, key := range []listen.KeyPair{{}, certified(t)} {
			for name, leave := range map[string]func(net.Conn){
				"close": func(c net.Conn) { c.Close() },
				"reset": func(c net.Conn) {
					if t, ok := c.(*net.TCPConn); ok {
						t.SetLinger(0)
					}
					c.Close()
				},
				"end of sending": func(c net.Conn) { c.(interface{ CloseWrite() error }).CloseWrite() },
			} {
				t.Run(fmt.Sprintf("fast %t, TLS %t, %s", fast, key.Cert != "", name), func(t *testing.T) {
					h := newWaiter()
					_, c := waits(t, listen.Config{FastPath: fast, TLS: key}, h)
					leave(c)
					h.canceled(t)
				})
			}
		}
	}
}

// H31: as with net/http, the request is not canceled if its client has sent more before it
// leaves, because that may be the next request.
func TestH31_MoreWhileARequestIsServed(t *testing.T) {
	for _, fast := range []bool{true, false} {
		h := newWaiter()
		_, c := waits(t, listen.Config{FastPath: fast}, h)
		second := get("/second", "A: "+strings.Repeat("x", 1000)) // more than is read at once
		io.WriteString(c, second[:9])
		<-time.After(100 * time.Millisecond)
		io.WriteString(c, second[9:]+get("/third"))
		c.(*net.TCPConn).CloseWrite()
		<-time.After(100 * time.Millisecond)
		close(h.release)
		if err := <-h.ended; err != nil {
			t.Errorf("fast %t: the request ended with %v; want it released", fast, err)
		}
		all, err := io.ReadAll(c)
		for _, want := range []string{"GET /wait", "GET /second", "GET /third"} {
			if err != nil || strings.Count(string(all), want) != 1 {
				t.Errorf("fast %t: got %q, %v; want one %s", fast, all, err, want)
			}
		}
	}
}

// H31: so it is if the next request has come together with the one that is served.
// net/http cancels the first one if it has read both at once.
func TestH31_PipelinedAndGone(t *testing.T) {
	h := newWaiter()
	c := dial(t, serve(t, listen.Config{FastPath: true}, listen.Options{Handler: h}))
	io.WriteString(c, first)
	until(t, c, "GET /first")
	<-time.After(10 * time.Millisecond) // until the connection is idle
	io.WriteString(c, get("/wait")+get("/second"))
	<-h.begun
	c.(*net.TCPConn).CloseWrite()
	<-time.After(100 * time.Millisecond)
	close(h.release)
	all, _ := io.ReadAll(c)
	if err := <-h.ended; err != nil || !strings.Contains(string(all), "GET /wait") || !strings.HasSuffix(string(all), "GET /second") {
		t.Errorf("the request ended with %v, the client got %q; want both responses", err, all)
	}
}

// H31: the idle time-out does not count while a request is served, and starts again after
// it.
func TestH31_IdleTimeoutAroundALongRequest(t *testing.T) {
	const timeout = 500 * time.Millisecond
	h := newWaiter()
	_, c := waits(t, listen.Config{FastPath: true, Limits: listen.Limits{Idle: timeout, ReadHeader: timeout}}, h)
	<-time.After(2 * timeout)
	close(h.release)
	until(t, c, "GET /wait")
	for range 3 {
		io.WriteString(c, get("/sleep"))
		until(t, c, "GET /sleep")
	}
	began := time.Now()
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection: %v; want it closed", err)
	} else if d := time.Since(began); d < timeout/2 {
		t.Errorf("it ended after %v; want about %v", d, timeout)
	}
}

// H31: the idle time-out is that of the connection again after a long request, although it
// was set shortly before.
func TestH31_RequestsAfterALongOne(t *testing.T) {
	s := serve(t, listen.Config{FastPath: true, Limits: listen.Limits{Idle: time.Hour}}, listen.Options{Handler: newWaiter()})
	c := dial(t, s)
	io.WriteString(c, first)
	until(t, c, "GET /first")
	for _, path := range []string{"/before", "/sleep", "/after", "/sleep", "/last"} {
		<-time.After(10 * time.Millisecond) // until the connection is idle
		io.WriteString(c, get(path))
		until(t, c, "GET "+path)
	}
}

// H31: the deadlines that a handler sets end with its response; a read deadline cancels the
// request, as with net/http.
func TestH31_HandlersDeadlines(t *testing.T) {
	for _, fast := range []bool{true, false} {
		handlersDeadlines(t, fast)
	}
}

func handlersDeadlines(t *testing.T, fast bool) {
	s := serve(t, listen.Config{FastPath: fast}, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		switch r.URL.Path {
		case "/read":
			c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			<-r.Context().Done()
		case "/write":
			c.SetWriteDeadline(time.Unix(1, 0))
		case "/sent":
			w.Header().Set("Content-Length", "14") // so nothing is left to write
		}
		fmt.Fprint(w, "GET ", r.URL.Path, r.Context().Err())
		if err := c.Flush(); (err != nil) != (r.URL.Path == "/write") {
			t.Errorf("fast %t: Flush of %s = %v", fast, r.URL.Path, err)
		}
		if r.URL.Path == "/sent" {
			c.SetWriteDeadline(time.Unix(1, 0))
		}
	})})
	c := dial(t, s)
	io.WriteString(c, first)
	until(t, c, "GET /first")
	for _, path := range []string{"/sent", "/after", "/sent", "/after"} {
		<-time.After(10 * time.Millisecond) // until the connection is idle
		io.WriteString(c, get(path))
		until(t, c, "GET "+path+"<nil>")
	}
	for range 2 {
		<-time.After(10 * time.Millisecond)
		io.WriteString(c, get("/read"))
		until(t, c, "GET /readcontext canceled")
		if !fast { // net/http has canceled all requests of the connection
			return
		}
		<-time.After(10 * time.Millisecond)
		io.WriteString(c, get("/after"))
		until(t, c, "GET /after<nil>")
	}
	io.WriteString(c, get("/write"))
	if rest, _ := io.ReadAll(c); strings.Contains(string(rest), "GET /write") {
		t.Errorf("fast %t: got %q after the write deadline", fast, rest)
	}
}

// H31: the context of a request ends with it.
func TestH31_ContextEnds(t *testing.T) {
	ended := make(chan context.Context, 9)
	s := serve(t, listen.Config{FastPath: true}, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ended <- r.Context()
		fmt.Fprint(w, "GET ", r.URL.Path, r.Context().Err())
	})})
	c := dial(t, s)
	for range 3 {
		io.WriteString(c, get("/x"))
		until(t, c, "GET /x<nil>")
		select {
		case <-(<-ended).Done():
		case <-time.After(20 * time.Second):
			t.Fatal("the context did not end")
		}
	}
}

// H31: Shutdown waits for a long request, and asks its client to disconnect. When its
// context ends, and when the server is closed, the request is canceled.
func TestH31_ShutdownWaitsForLongRequests(t *testing.T) {
	for _, fast := range []bool{true, false} {
		h := newWaiter()
		s, c := waits(t, listen.Config{FastPath: fast}, h)
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		select {
		case err := <-done:
			t.Fatalf("fast %t: Shutdown returned %v while a request was being served", fast, err)
		case <-time.After(100 * time.Millisecond):
		}
		close(h.release)
		got, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(got), "Connection: close\r\n") || !strings.HasSuffix(string(got), "GET /wait") {
			t.Errorf("fast %t: got %q, %v; want the response, and Connection: close", fast, got, err)
		}
		if err := <-done; err != nil || <-h.ended != nil {
			t.Errorf("fast %t: Shutdown = %v", fast, err)
		}

		h = newWaiter()
		s, _ = waits(t, listen.Config{FastPath: fast}, h)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("fast %t: Shutdown = %v; want the error of its context", fast, err)
		}
		cancel()
		h.canceled(t)

		h = newWaiter()
		s, c = waits(t, listen.Config{FastPath: fast}, h)
		if fast {
			io.WriteString(c, "G") // after this, the connection is not watched
			<-time.After(100 * time.Millisecond)
		}
		s.Close()
		h.canceled(t)
	}
}
