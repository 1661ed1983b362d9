package forward_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/forward"
)

// secure returns serve's fn behind TLS.
func secure(t *testing.T, fn func(net.Conn, *bufio.Reader), protocols ...string) (func(net.Conn, *bufio.Reader), func(*forward.Options)) {
	config := &tls.Config{Certificates: []tls.Certificate{certificate(t)}, NextProtos: protocols}
	return func(c net.Conn, _ *bufio.Reader) {
			tc := tls.Server(c, config)
			defer tc.Close()
			fn(tc, bufio.NewReader(tc))
		}, func(o *forward.Options) {
			o.TLS = &tls.Config{InsecureSkipVerify: true}
		}
}

// An origin that reads a request on a reused connection and then closes it
// receives the request once, even if net/http would resend that method.
func TestH15_HangUpIsNoReplay(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for _, head := range []string{
			"GET / HTTP/1.1\r\n\r\n", "HEAD / HTTP/1.1\r\n\r\n", "OPTIONS / HTTP/1.1\r\n\r\n", "DELETE / HTTP/1.1\r\n\r\n",
			"POST / HTTP/1.1\r\nIdempotency-Key: k\r\nContent-Length: 0\r\n\r\n",
			"PUT / HTTP/1.1\r\nX-Idempotency-Key: k\r\nContent-Length: 0\r\n\r\n",
		} {
			t.Run(scheme+" "+head[:strings.Index(head, " ")], func(t *testing.T) {
				var seen atomic.Int32
				fn := func(c net.Conn, br *bufio.Reader) {
					for {
						h, err := readHead(br)
						if err != nil {
							return
						}
						if !strings.HasPrefix(h, "GET /first ") {
							seen.Add(1)
							return
						}
						io.WriteString(c, ok)
					}
				}
				secured, options := secure(t, fn)
				if scheme == "https" {
					fn = secured
				}
				o := serve(t, loopback(t), fn)
				tr := o.transport(t, scheme, options)
				for range 2 {
					req, _ := http.NewRequest("GET", "http://x/first", nil)
					resp, err := tr.RoundTrip(req)
					if err != nil {
						t.Fatalf("RoundTrip(first) = %v", err)
					}
					io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.Replace(head, "\r\n", "\r\nHost: x\r\n", 1))))
				if err != nil {
					t.Fatal(err)
				}
				req.Body = nil
				if resp, err := tr.RoundTrip(req); err == nil {
					t.Errorf("RoundTrip(%q) = %v; want an error", head, resp.Status)
				} else if errors.As(err, new(*fault.UnreachableError)) {
					t.Errorf("RoundTrip(%q) = %v; want an error that shows that something was sent", head, err)
				}
				if n := seen.Load(); n != 1 {
					t.Errorf("%q ran %d times; want once", head, n)
				}
			})
		}
	}
}

// An origin that closes idle connections at any time, sometimes at the very
// moment a request arrives, makes no request fail.
func TestH15_UnluckyTiming(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			synctest.Test(t, func(t *testing.T) {
				var seen, conns atomic.Int32
				fn := func(c net.Conn, br *bufio.Reader) {
					conns.Add(1)
					for {
						c.SetReadDeadline(time.Now().Add(time.Second))
						if _, err := br.Peek(1); err != nil {
							return
						}
						c.SetReadDeadline(time.Time{})
						if _, err := readHead(br); err != nil {
							return
						}
						seen.Add(1)
						io.WriteString(c, ok)
					}
				}
				secured, options := secure(t, fn)
				if scheme == "https" {
					fn = secured
				}
				o := serve(t, pipes(t), fn)
				tr := o.transport(t, scheme, options)
				rnd := rand.New(rand.NewPCG(seed, 1))
				tries := 1000
				if scheme == "https" {
					tries = 200 // handshakes are expensive
				}
				for i := range tries {
					if body, err := get(tr); err != nil || body != "ok" {
						t.Fatalf("seed %d: request %d = %q, %v; want ok", seed, i, body, err)
					}
					switch rnd.IntN(3) {
					case 0:
						time.Sleep(time.Second) // the origin closes the connection now
					case 1:
						time.Sleep(time.Second - time.Duration(rnd.IntN(3)))
					}
				}
				if n := seen.Load(); int(n) != tries {
					t.Errorf("seed %d: the origin saw %d requests; want %d", seed, n, tries)
				}
				if n := conns.Load(); int(n) < tries/10 || int(n) > tries*9/10 {
					t.Errorf("seed %d: there were %d connections; want some reused and some closed", seed, n)
				}
				o.Close()
				tr.Close()
				o.wg.Wait()
			})
		})
	}
}

// A connection is closed before the server would close it.
func TestH15_IdleTimes(t *testing.T) {
	for _, tt := range []struct {
		field string
		want  time.Duration
	}{
		{"", 2 * time.Second},
		{"Keep-Alive: timeout=5\r\n", 4 * time.Second},
		{"Keep-Alive: max=100, Timeout=\"61\"\r\n", 60 * time.Second},
		{"Keep-Alive: timeout=1\r\n", 0},
		{"Keep-Alive: timeout=soon\r\n", 2 * time.Second},
	} {
		for _, body := range []string{"Content-Length: 2\r\n\r\nok", "Content-Length: 0\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"} {
			synctest.Test(t, func(t *testing.T) {
				var lasted time.Duration
				o := serve(t, pipes(t), func(c net.Conn, br *bufio.Reader) {
					answers("HTTP/1.1 200 OK\r\n"+tt.field+body)(c, br)
				})
				begin := time.Now()
				ended := make(chan struct{})
				dial := o.dial
				o.dial = dial
				tr := o.transport(t, "http", func(op *forward.Options) {
					op.Dial = watched(dial, func() { lasted = time.Since(begin); close(ended) })
				})
				if _, err := get(tr); err != nil {
					t.Fatal(err)
				}
				<-ended
				if lasted != tt.want {
					t.Errorf("with %q and %q the connection was idle for %v; want %v", tt.field, body, lasted, tt.want)
				}
				o.Close()
				o.wg.Wait()
			})
		}
	}
}

// A connection in use is not closed, however long that takes, and the idle time
// starts again after each use.
func TestH15_BusyIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var conns atomic.Int32
		o := serve(t, pipes(t), func(c net.Conn, br *bufio.Reader) {
			conns.Add(1)
			for {
				if _, err := readHead(br); err != nil {
					return
				}
				time.Sleep(10 * time.Second)
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
				time.Sleep(10 * time.Second)
				io.WriteString(c, "k")
			}
		})
		tr := o.transport(t, "http")
		for range 5 {
			if body, err := get(tr); body != "ok" || err != nil {
				t.Fatalf("get = %q, %v; want ok", body, err)
			}
			time.Sleep(1999 * time.Millisecond)
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("there were %d connections; want 1", n)
		}
		tr.Close()
		o.Close()
		o.wg.Wait()
	})
}

// A body that was not read yet is sent again if the first connection turns out to
// be dead; one that was partly read is not.
func TestH15_BodyIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bodies recorder
		o := serve(t, pipes(t), func(c net.Conn, br *bufio.Reader) {
			for {
				c.SetReadDeadline(time.Now().Add(time.Second))
				if _, err := br.Peek(1); err != nil {
					return
				}
				c.SetReadDeadline(time.Time{})
				req, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				b, _ := io.ReadAll(req.Body)
				bodies.add(string(b))
				io.WriteString(c, ok)
			}
		})
		tr := o.transport(t, "http")
		for i := range 50 {
			req, _ := http.NewRequest("POST", "http://x/", io.NopCloser(strings.NewReader(fmt.Sprint("body ", i))))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatalf("RoundTrip(%d) = %v", i, err)
			}
			io.ReadAll(resp.Body)
			resp.Body.Close()
			time.Sleep(time.Second) // the origin closes the connection now
		}
		for i, b := range bodies.all() {
			if want := fmt.Sprint("body ", i); b != want {
				t.Errorf("body %d = %q; want %q", i, b, want)
			}
		}
		if n := len(bodies.all()); n != 50 {
			t.Errorf("%d bodies arrived; want 50", n)
		}
		tr.Close()
		o.Close()
		o.wg.Wait()
	})
}

func TestH15_UnreachableIsSaid(t *testing.T) {
	o := serve(t, loopback(t), func(net.Conn, *bufio.Reader) {})
	o.Close()
	if _, err := get(o.transport(t, "http")); !errors.As(err, new(*fault.UnreachableError)) {
		t.Errorf("RoundTrip = %v; want an UnreachableError", err)
	}
	plain := serve(t, loopback(t), answers("not TLS\r\n"))
	_, err := get(plain.transport(t, "https"))
	if !errors.As(err, new(*fault.UnreachableError)) {
		t.Errorf("RoundTrip to a server without TLS = %v; want an UnreachableError", err)
	}
}

func TestNewTransportErrors(t *testing.T) {
	if _, err := forward.NewTransport(forward.Options{}); err == nil {
		t.Error("NewTransport without BaseURL = nil; want an error")
	}
	for _, tt := range []string{"ftp", ""} {
		if _, err := forward.NewTransport(forward.Options{BaseURL: mustURL(t, tt+"://x")}); err == nil {
			t.Errorf("NewTransport(%q) = nil; want an error", tt)
		}
	}
}
