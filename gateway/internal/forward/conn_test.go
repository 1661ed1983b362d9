package forward

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TLS sends its closing alert on a connection on which nothing of a request was
// written. The alert must not count as part of a request.
func TestH15_GoodbyeIsNotARequest(t *testing.T) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	server := tls.Server(theirs, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}})
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(server)
		read <- err
	}()
	c := &conn{Conn: ours, over: make(chan struct{})}
	tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	before := c.wrote.Load()
	if _, err := tc.Write([]byte("hello")); err != nil || c.wrote.Load() <= before {
		t.Fatalf("Write = %v with %d bytes counted; want some", err, c.wrote.Load()-before)
	}
	before = c.wrote.Load()
	tc.Close()
	if err := <-read; err != nil {
		t.Fatalf("the server read %v; want a closing alert", err)
	}
	if got := c.wrote.Load(); got != before {
		t.Errorf("the closing alert counts as %d bytes; want none", got-before)
	}
	theirs.Close()
}

// The report that a connection is idle may arrive after the next request has
// taken the connection. That request must not be cut off.
func TestH15_LatePutIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		c := &conn{Conn: ours, over: make(chan struct{}), keep: time.Second}
		first, second := new(attempt), new(attempt)
		c.take(first, "GET")
		c.take(second, "GET")
		c.put(first)
		c.setKeep(first, 0)
		time.Sleep(time.Minute)
		if c.lost.Load() {
			t.Error("the connection was closed while in use")
		}
		c.put(second)
		time.Sleep(time.Second)
		synctest.Wait()
		if !c.lost.Load() {
			t.Error("the connection was not closed while idle")
		}
		if n, err := c.Write([]byte("x")); n != 0 || err == nil {
			t.Errorf("Write = %d, %v; want an error, with nothing written", n, err)
		}
		theirs.Close()
	})
}

// net/http may take a connection that is too old before it can be closed. The request is then the last one on it,
// unless it is an upgrade, which is the last one anyway.
func TestH37_TheLastRequestOfAnOldConnection(t *testing.T) {
	for _, tt := range []struct {
		name    string
		until   time.Time
		upgrade bool
		want    bool
	}{
		{"old", time.Now().Add(-time.Second), false, true},
		{"old, an upgrade", time.Now().Add(-time.Second), true, false},
		{"young", time.Now().Add(time.Hour), false, false},
		{"without an age", time.Time{}, false, false},
	} {
		ours, theirs := net.Pipe()
		c := &conn{Conn: ours, over: make(chan struct{}), until: tt.until}
		r := &http.Request{Method: "GET", Header: http.Header{}}
		if tt.upgrade {
			r.Header.Set("Upgrade", "websocket")
		}
		a := &attempt{req: r}
		a.gotConn(httptrace.GotConnInfo{Conn: newFramed(c, c), Reused: true})
		if r.Close != tt.want {
			t.Errorf("%s: Close = %t; want %t", tt.name, r.Close, tt.want)
		}
		theirs.Close()
	}
}

// For any Keep-Alive, a connection is kept for less time than the server waits.
func FuzzKeepAlive(f *testing.F) {
	for _, s := range []string{"timeout=5", "max=1, timeout=61", `timeout="3"`, "timeout", "timeout=-1", "timeout=99999999999", ",,=", "TIMEOUT = 2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, ok := keepAlive([]string{s})
		if d < 0 || !ok && d != 0 || d > (1<<32)*time.Second {
			t.Errorf("keepAlive(%q) = %v, %t; want no negative time", s, d, ok)
		}
	})
}

func TestKeepAlive(t *testing.T) {
	for _, tt := range []struct {
		value string
		want  time.Duration
		ok    bool
	}{
		{"timeout=5", 4 * time.Second, true},
		{"max=3, Timeout = \"61\"", time.Minute, true},
		{"timeout=0", 0, true},
		{"timeout=x, timeout=2", time.Second, true},
		{"max=3", 0, false},
	} {
		if d, ok := keepAlive([]string{tt.value}); d != tt.want || ok != tt.ok {
			t.Errorf("keepAlive(%q) = %v, %t; want %v, %t", tt.value, d, ok, tt.want, tt.ok)
		}
	}
}

// closeAfterReply relies on how a MaxBytesReader notifies its ResponseWriter.
func TestCloseAfterReply(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		http.NewResponseController(w).Flush()
		closeAfterReply(wrapped{w})
	})}
	go srv.Serve(ln)
	defer srv.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	c.SetReadDeadline(time.Now().Add(time.Minute))
	b, err := io.ReadAll(c)
	if err != nil || len(b) < 5 || string(b[len(b)-5:]) != "0\r\n\r\n" {
		t.Errorf("the response was %q, %v; want it complete, and the connection closed", b, err)
	}
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// On a very busy machine, a newly opened connection may exceed its idle time
// before anything is written to it. Then this side has closed it, not the server:
// the request is sent over another connection.
func TestH15_FreshConnectionThatWeCloseIsNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var servers sync.WaitGroup
		tr, err := NewTransport(Options{
			BaseURL: &url.URL{Scheme: "http", Host: "origin.test"},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				servers.Go(func() {
					defer theirs.Close()
					if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
						io.WriteString(theirs, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
					}
				})
				return ours, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer servers.Wait()
		defer tr.Close()
		dial, dials := tr.old.DialContext, 0
		tr.old.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if dials++; dials == 1 {
				time.Sleep(tr.o.IdleConn + time.Second)
			}
			return c, err
		}
		r, err := http.NewRequest("GET", "http://origin.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := tr.RoundTrip(r)
		if err != nil || resp.StatusCode != 204 || dials != 2 {
			t.Fatalf("RoundTrip = %v, %v after %d dials; want 204 over the second connection", resp, err, dials)
		}
		resp.Body.Close()
	})
}

// The requests that are sent directly, and those that net/http sends.
func TestDirectRequests(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") }))
	defer srv.Close()
	base, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, body, field string
		netHTTP             bool
		want                int
	}{
		{method: "GET", want: 1},
		{method: "HEAD", want: 1},
		{method: "DELETE", want: 1},
		{method: "POST", want: 1},
		{method: "POST", body: "x"},
		{method: "GET", field: "Upgrade"},
		{method: "GET", field: "expect"},
		{method: "GET", netHTTP: true},
	} {
		tr, err := NewTransport(Options{BaseURL: base, NetHTTP: tt.netHTTP})
		if err != nil {
			t.Fatal(err)
		}
		var body io.Reader
		if tt.body != "" {
			body = strings.NewReader(tt.body)
		}
		r, err := http.NewRequest(tt.method, srv.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		if tt.field != "" {
			r.Header[tt.field] = []string{"x"}
		}
		for range 3 {
			resp, err := tr.RoundTrip(r.Clone(t.Context()))
			if err != nil {
				t.Fatalf("%+v: %v", tt, err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if body != nil || tt.field != "" {
				break
			}
		}
		idle := 0
		if tr.straight != nil {
			idle = len(tr.straight.idle)
		}
		if idle != tt.want {
			t.Errorf("%+v: %d idle direct connections; want %d", tt, idle, tt.want)
		}
		tr.Close()
		if tr.straight != nil && len(tr.straight.idle) != 0 {
			t.Errorf("%+v: idle connections after Close", tt)
		}
	}
}
