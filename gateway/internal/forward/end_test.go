package forward_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/forward"
	"github.com/weir-go/weir/weirhttp"
)

// resetConn makes the kernel send a RST.
func resetConn(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// What the client sees of a response that the origin ends as how says.
func TestH5_BrokenBodies(t *testing.T) {
	for _, tt := range []struct {
		name, version, answer string
		then                  string // the bytes after abc
		reset                 bool
		whole, rst            bool // expected at the client
	}{
		{name: "short of its length", version: "1.1", answer: "Content-Length: 10\r\n\r\nabc"},
		{name: "no final chunk", version: "1.1", answer: "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"},
		{name: "a bad chunk", version: "1.1", answer: "Transfer-Encoding: chunked\r\n\r\n3\r\nabc", then: "def"},
		{name: "ended by FIN", version: "1.1", answer: "\r\nabc", whole: true},
		{name: "ended by FIN, after Connection: close", version: "1.1", answer: "Connection: close\r\n\r\nabc", whole: true},
		{name: "ended by RST", version: "1.1", answer: "\r\nabc", reset: true},
		{name: "HTTP/1.0 ended by FIN", version: "1.0", answer: "\r\nabc", whole: true},
		{name: "HTTP/1.0 ended by RST", version: "1.0", answer: "\r\nabc", reset: true, rst: true},
		{name: "HTTP/1.0, no final chunk", version: "1.0", answer: "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", rst: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := make(chan struct{})
			r := newRig(t, func(c net.Conn, br *bufio.Reader) {
				readHead(br)
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+tt.answer)
				<-got
				io.WriteString(c, tt.then)
				if tt.reset {
					resetConn(c)
				}
			})
			c := r.client()
			c.send("GET / HTTP/" + tt.version + "\r\nHost: h\r\n\r\n")
			resp, err := http.ReadResponse(c.br, &http.Request{Method: "GET"})
			if err != nil {
				t.Fatal(err)
			}
			abc := make([]byte, 3)
			if _, err := io.ReadFull(resp.Body, abc); err != nil || string(abc) != "abc" {
				t.Fatalf("the body began with %q, %v; want abc", abc, err)
			}
			close(got)
			rest, err := io.ReadAll(resp.Body)
			if whole := err == nil; whole != tt.whole || len(rest) > 0 {
				t.Errorf("the rest was %q, %v; want complete = %t", rest, err, tt.whole)
			}
			if rst := errors.Is(err, syscall.ECONNRESET); rst != tt.rst {
				t.Errorf("the end was %v; want a RST = %t", err, tt.rst)
			}
		})
	}
}

// streams returns an HTTP/2 origin that sends 200 with these lengths declared, and this
// body of less than 256 bytes.
func streams(body string, lengths ...string) func(net.Conn, *bufio.Reader) {
	head := []byte{0x88} // :status 200
	for _, n := range lengths {
		head = append(append(head, 0x0f, 0x0d, byte(len(n))), n...) // content-length, from the static table
	}
	return func(c net.Conn, br *bufio.Reader) {
		io.CopyN(io.Discard, br, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
		c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
		for {
			var h [9]byte
			if _, err := io.ReadFull(br, h[:]); err != nil {
				return
			}
			io.CopyN(io.Discard, br, int64(h[0])<<16|int64(h[1])<<8|int64(h[2]))
			switch {
			case h[3] != 1: // no HEADERS
			case body == "": // HEADERS with END_STREAM
				c.Write(append([]byte{0, 0, byte(len(head)), 1, 5, h[5], h[6], h[7], h[8]}, head...))
			default: // HEADERS, and DATA with END_STREAM
				c.Write(append([]byte{0, 0, byte(len(head)), 1, 4, h[5], h[6], h[7], h[8]}, head...))
				c.Write(append([]byte{0, 0, byte(len(body)), 0, 1, h[5], h[6], h[7], h[8]}, body...))
			}
		}
	}
}

// A repeated or invalid Content-Length is a 502 over HTTP/2, as over HTTP/1: a client with
// HTTP/1 could take the wrong one for the length of the body.
func TestH5_LengthsOverHTTP2(t *testing.T) {
	const broken = -1
	for _, tt := range []struct {
		lengths   []string
		get, head int // status; broken: the body is
	}{
		{nil, 200, 200},
		{[]string{"3"}, 200, 200},
		{[]string{"03"}, 200, 200},
		{[]string{"5"}, broken, 200},
		{[]string{"2"}, broken, 200},
		{[]string{"3", "5"}, 502, 502},
		{[]string{"3", "3"}, 502, 502},
		{[]string{"3, 3"}, 502, 502},
		{[]string{"+3"}, 502, 502},
		{[]string{"-3"}, 502, 502},
		{[]string{"3x"}, 502, 502},
		{[]string{""}, 502, 502},
		{[]string{"99999999999999999999"}, 502, 502},
	} {
		for method, want := range map[string]int{"GET": tt.get, "HEAD": tt.head} {
			body := "abc"
			if method == "HEAD" {
				body = ""
			}
			o := serve(t, loopback(t), streams(body, tt.lengths...))
			f := &forward.Forwarder{RoundTrip: o.transport(t, "h2c").RoundTrip}
			w := &sink{ResponseRecorder: httptest.NewRecorder()}
			panicked := at(f, w, httptest.NewRequest(method, "/", nil))
			got := w.Code
			var invalid *forward.ProtocolError
			switch {
			case errors.As(w.err, &invalid) && errors.As(w.err, new(*fault.UpstreamError)):
				got, _ = forward.Failure(w.err)
			case panicked == http.ErrAbortHandler, w.err != nil: // before or after the head was written
				got = broken
			}
			if got != want {
				t.Errorf("%s, lengths %q: %d with %q; want %d", method, tt.lengths, got, w.Header(), want)
			}
		}
	}
}

// A sink records the calls of a Forwarder.
type sink struct {
	*httptest.ResponseRecorder
	err       error
	delimited bool
}

func (s *sink) Fail(err error)  { s.err = err }
func (s *sink) CloseDelimited() { s.delimited = true }

var _ weirhttp.Sink = (*sink)(nil)

// at has f serve a request without a network.
func at(f *forward.Forwarder, w http.ResponseWriter, r *http.Request) (panicked any) {
	defer func() { panicked = recover() }()
	f.ServeHTTP(w, r)
	return nil
}

func TestH5_ASinkIsTold(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		delimited    bool
		broken       bool
	}{
		{name: "length", answer: "200 OK\r\nContent-Length: 3\r\n\r\nabc"},
		{name: "chunks", answer: "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"},
		{name: "neither", answer: "200 OK\r\n\r\nabc", delimited: true},
		{name: "no body", answer: "204 No Content\r\n\r\n"},
		{name: "broken", answer: "200 OK\r\nContent-Length: 9\r\n\r\nabc", broken: true},
	} {
		r := newRig(t, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			io.WriteString(c, "HTTP/1.1 "+tt.answer)
		})
		s := &sink{ResponseRecorder: httptest.NewRecorder()}
		got := at(r.f, s, httptest.NewRequest("GET", "/", nil))
		broken := got == http.ErrAbortHandler || got == nil && s.err != nil && s.Body.Len() == 0 // after the head, or before it
		if broken != tt.broken || !broken && got != nil || s.delimited != tt.delimited {
			t.Errorf("%s: panic %v, CloseDelimited %t, Fail %v; want it broken: %t, and %t", tt.name, got, s.delimited, s.err, tt.broken, tt.delimited)
		}
	}
	r := newRig(t, answers(""))
	r.origin.Close()
	s := &sink{ResponseRecorder: httptest.NewRecorder()}
	at(r.f, s, httptest.NewRequest("GET", "/", nil))
	if !errors.As(s.err, new(*fault.UnreachableError)) {
		t.Errorf("Fail got %v; want an UnreachableError", s.err)
	}
}

// A plain ResponseWriter gets these responses when the server sends none.
func TestH21_ProxyStatus(t *testing.T) {
	for _, tt := range []struct {
		answer string
		err    error
		code   int
		kind   string
	}{
		{answer: "", code: 502, kind: "connection_terminated"},
		{answer: "nonsense\r\n\r\n", code: 502, kind: "http_protocol_error"},
		{answer: "HTTP/1.1 012 Odd\r\n\r\n", code: 502, kind: "http_protocol_error"},
		{answer: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", code: 502, kind: "http_protocol_error"},
		{answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n", code: 502, kind: "http_response_header_section_size"},
		{err: context.DeadlineExceeded, code: 504, kind: "http_response_timeout"},
		{err: &fault.UnreachableError{Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, code: 502, kind: "connection_refused"},
		{err: &fault.UnreachableError{Err: context.DeadlineExceeded}, code: 504, kind: "connection_timeout"},
		{err: &fault.UnreachableError{Err: &net.DNSError{}}, code: 502, kind: "dns_error"},
		{err: &fault.UnreachableError{Err: &net.DNSError{IsTimeout: true}}, code: 504, kind: "dns_timeout"},
		{err: &fault.UnreachableError{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}}, code: 502, kind: "tls_certificate_error"},
		{err: &fault.UnreachableError{Err: tls.AlertError(40)}, code: 502, kind: "tls_alert_received"},
		{err: &fault.UnreachableError{Err: tls.RecordHeaderError{}}, code: 502, kind: "tls_protocol_error"},
		{err: &fault.UnreachableError{Err: syscall.EHOSTUNREACH}, code: 502, kind: "destination_ip_unroutable"},
		{err: &fault.UnreachableError{Err: errors.New("x")}, code: 502, kind: "destination_unavailable"},
	} {
		r := newRig(t, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			io.WriteString(c, tt.answer)
		})
		if tt.err != nil {
			r.f.RoundTrip = func(*http.Request) (*http.Response, error) { return nil, tt.err }
		}
		w := httptest.NewRecorder()
		at(r.f, w, httptest.NewRequest("GET", "/", nil))
		if got, want := w.Header().Get("Proxy-Status"), "weir; error="+tt.kind; w.Code != tt.code || got != want {
			t.Errorf("%.40q, %v: %d %q; want %d %q", tt.answer, tt.err, w.Code, got, tt.code, want)
		}
		cache, err := weirhttp.New(r.f, weirhttp.Options{Gateway: true}) // it says the same
		if err != nil {
			t.Fatal(err)
		}
		w = httptest.NewRecorder()
		cache.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if got := w.Header().Get("Proxy-Status"); w.Code != tt.code || !strings.HasSuffix(got, "; error="+tt.kind) {
			t.Errorf("%.40q, %v, behind a cache: %d %q; want %d %s", tt.answer, tt.err, w.Code, got, tt.code, tt.kind)
		}
	}
}

// Events pass at once, and so does a header whose body is late.
func TestH8_NothingWaitsForMore(t *testing.T) {
	for _, tt := range []struct {
		field string
		delay time.Duration // of the header
	}{
		{"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n", 0},
		{"Transfer-Encoding: chunked\r\n", time.Millisecond},
		{"Content-Length: 4\r\n", time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			chunked := strings.Contains(tt.field, "chunked")
			r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
				readHead(br)
				io.WriteString(c, "HTTP/1.1 200 OK\r\n"+tt.field+"\r\n")
				for range 2 {
					time.Sleep(time.Second)
					if chunked {
						io.WriteString(c, "2\r\nab\r\n")
					} else {
						io.WriteString(c, "ab")
					}
				}
				if chunked {
					io.WriteString(c, "0\r\n\r\n")
				}
				readHead(br)
			})
			begin := time.Now()
			c := r.client()
			c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin); d != tt.delay {
				t.Errorf("with %q the header took %v; want %v", tt.field, d, tt.delay)
			}
			for i := range 2 {
				var p [2]byte
				io.ReadFull(resp.Body, p[:])
				if d, want := time.Since(begin), time.Duration(i+1)*time.Second; d != want {
					t.Errorf("with %q part %d took %v; want %v", tt.field, i, d, want)
				}
			}
			c.Close()
		})
	}
}

// A body without progress is cut off; a slow one is not.
func TestH19_IdleBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
			for range 5 {
				time.Sleep(9 * time.Second)
				io.WriteString(c, "x")
			}
			br.ReadByte() // until the Forwarder closes the connection
		})
		r.f.IdleTimeout = 10 * time.Second
		begin := time.Now()
		c := r.client()
		c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		_, body, err := c.answer("GET")
		if d := time.Since(begin); body != "xxxxx" || err == nil || d != 55*time.Second {
			t.Errorf("the body was %q, %v after %v; want xxxxx, broken after 55s", body, err, d)
		}
	})
}

// A client that does not read is cut off as well.
func TestH19_IdleClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 1)
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			begin := time.Now()
			readHead(br)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
			io.WriteString(c, strings.Repeat("x", 1000000))
			ended <- time.Since(begin)
		})
		r.f.IdleTimeout = 10 * time.Second
		c := r.client()
		c.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if d := <-ended; d != 10*time.Second {
			t.Errorf("the origin's connection ended after %v; want 10s", d)
		}
		c.Close()
	})
}
