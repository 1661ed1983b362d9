package weirhttp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// later returns a response whose headers arrive at once, and whose body arrives after
// wait.
func later(r *http.Request, wait time.Duration, body string, length int64, fields ...string) *http.Response {
	resp := plain(r, 200, "", fields...)
	pr, pw := io.Pipe()
	go func() {
		select {
		case <-time.After(wait):
			_, _ = io.WriteString(pw, body)
			_ = pw.Close()
		case <-r.Context().Done():
			_ = pw.CloseWithError(context.Cause(r.Context()))
		}
	}()
	resp.Body, resp.ContentLength = pr, length
	return resp
}

func TestH4_TransportReturnsAtTheHead(t *testing.T) {
	const wait = 2 * time.Minute
	for _, tt := range []struct {
		name, method string
		length       int64
		fields       []string
		accept       string
		joins        int
	}{
		{"shared, of a known length", "GET", 4, []string{"Cache-Control", "max-age=60"}, "", 3},
		{"shared, of an unknown length", "GET", -1, []string{"Cache-Control", "max-age=60"}, "", 3},
		{"alone", "GET", -1, []string{"Cache-Control", "no-store"}, "", 0},
		{"passed on", "POST", -1, nil, "", 0},
		{"an event stream that was requested", "GET", -1, []string{"Content-Type", "text/event-stream"}, "text/event-stream", 0},
		{"an event stream that was not", "GET", -1, []string{"Content-Type", "text/event-stream"}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := weirhttp.Options{HeadTimeout: time.Minute, IdleTimeout: time.Hour}
				c, tr := transport(t, o, func(r *http.Request) (*http.Response, error) {
					time.Sleep(slow)
					return later(r, wait, "late", tt.length, tt.fields...), nil
				})
				answers := make(chan error)
				for range 1 + tt.joins {
					go func() {
						r, _ := http.NewRequestWithContext(t.Context(), tt.method, "http://a/x", nil)
						if tt.accept != "" {
							r.Header.Set("Accept", tt.accept)
						}
						began := time.Now()
						resp, err := c.Do(r)
						if err != nil {
							answers <- err
							return
						}
						headed := time.Since(began)
						b, err := io.ReadAll(resp.Body)
						_ = resp.Body.Close()
						if all := time.Since(began); headed != slow || all != slow+wait || string(b) != "late" || err != nil {
							err = fmt.Errorf("headers after %v, then %q, %w after %v; want headers after %v, and late after %v", headed, b, err, all, slow, slow+wait)
						}
						answers <- err
					}()
				}
				for range 1 + tt.joins {
					if err := <-answers; err != nil {
						t.Error(err)
					}
				}
				if got := tr.Stats().Joined; got != uint64(tt.joins) {
					t.Errorf("%d requests joined; want %d", got, tt.joins)
				}
			})
		})
	}
}

// The time until the headers is still bounded, and so is that of a body that stalls.
func TestH4_TransportBoundsTheHeadAndThenTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := transport(t, weirhttp.Options{HeadTimeout: time.Minute, IdleTimeout: 90 * time.Second}, func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/headless" {
				<-r.Context().Done()
				return nil, context.Cause(r.Context())
			}
			return later(r, time.Hour, "", -1), nil
		})
		began := time.Now()
		if _, err := c.Get("http://a/headless"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("without headers: %v after %v; want a timeout after 1m", err, time.Since(began))
		}
		began = time.Now()
		if _, err := fetch(t, c, "http://a/stalls"); err == nil || time.Since(began) != 90*time.Second {
			t.Errorf("a body that stalls: %v after %v; want an error after 90s", err, time.Since(began))
		}
	})
}

// An event stream may be silent for longer than other bodies.
func TestH8_SilentEventStreams(t *testing.T) {
	for _, tt := range []struct {
		name     string
		o        weirhttp.Options
		accept   bool
		silence  time.Duration
		survives bool
	}{
		{"by default", weirhttp.Options{}, true, 5 * time.Minute, true},
		{"by default, not asked for", weirhttp.Options{}, false, 5 * time.Minute, true},
		{"beyond the default", weirhttp.Options{}, true, 11 * time.Minute, false},
		{"beyond the default, not asked for", weirhttp.Options{}, false, 11 * time.Minute, false},
		{"with an IdleTimeout", weirhttp.Options{IdleTimeout: time.Minute}, true, 2 * time.Minute, false},
		{"with both", weirhttp.Options{IdleTimeout: time.Minute, StreamIdleTimeout: time.Hour}, false, 50 * time.Minute, true},
		{"with a shorter one", weirhttp.Options{IdleTimeout: time.Hour, StreamIdleTimeout: time.Minute}, false, 2 * time.Minute, false},
		{"with none", weirhttp.Options{StreamIdleTimeout: -1}, false, 1000 * time.Hour, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := transport(t, tt.o, func(r *http.Request) (*http.Response, error) {
					return later(r, tt.silence, "data: x\n\n", -1, "Content-Type", "text/event-stream"), nil
				})
				r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a/x", nil)
				if tt.accept {
					r.Header.Set("Accept", "text/event-stream")
				}
				resp, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if got := err == nil && string(b) == "data: x\n\n"; got != tt.survives {
					t.Errorf("after %v of silence the stream was %q, %v; want it to survive: %v", tt.silence, b, err, tt.survives)
				}
			})
		})
	}
}

func TestH17_TransportRelaysTrailersThatNobodyAnnounced(t *testing.T) {
	for _, length := range []int64{-1, 4} {
		for _, control := range []string{"max-age=60", "no-store"} {
			synctest.Test(t, func(t *testing.T) {
				c, _ := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
					time.Sleep(slow)
					resp := plain(r, 200, "body", "Cache-Control", control)
					resp.ContentLength = length
					resp.Trailer = http.Header{"X-Known": nil}
					resp.Body = &ending{Reader: resp.Body, end: func() {
						resp.Trailer["X-Known"] = []string{"1"}
						resp.Trailer["X-Sum"] = []string{"7", "8"}
					}}
					return resp, nil
				})
				got := make(chan string)
				for range 3 {
					go func() {
						resp, err := c.Get("http://a/x")
						if err != nil {
							got <- err.Error()
							return
						}
						b, err := io.ReadAll(resp.Body)
						_ = resp.Body.Close()
						got <- fmt.Sprint(string(b), err, resp.Trailer["X-Known"], resp.Trailer["X-Sum"])
					}()
				}
				for range 3 {
					if v := <-got; v != "body<nil>[1][7 8]" && v != "body<nil> [1] [7 8]" {
						t.Errorf("length %d, %s: got %s; want the body and both trailers", length, control, v)
					}
				}
			})
		}
	}
}

// ending calls end before it returns io.EOF.
type ending struct {
	io.Reader
	end func()
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == io.EOF {
		e.end()
	}
	return n, err
}

func (e *ending) Close() error { return nil }

func TestH17_TEIsKept(t *testing.T) {
	for _, tt := range []struct{ connection, te, want string }{
		{"TE", "trailers", "trailers"},
		{"te, X-Hop", "trailers, gzip;q=0.5", "trailers"},
		{"X-Hop, TE, close", "Trailers", "trailers"},
		{"TE", "gzip", ""},
		{"X-Hop", "trailers", "trailers"},
	} {
		for _, method := range []string{"GET", "POST"} {
			synctest.Test(t, func(t *testing.T) {
				var got http.Header
				c, _ := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
					got = r.Header.Clone()
					return plain(r, 200, "v"), nil
				})
				r, _ := http.NewRequestWithContext(t.Context(), method, "http://a/x", nil)
				r.Header.Set("Connection", tt.connection)
				r.Header.Set("TE", tt.te)
				r.Header.Set("X-Hop", "1")
				resp, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if got.Get("Te") != tt.want || strings.Contains(tt.connection, "X-Hop") && got.Get("X-Hop") != "" {
					t.Errorf("%s with Connection: %s and TE: %s: the origin got TE %q, X-Hop %q; want TE %q and no X-Hop", method, tt.connection, tt.te, got.Get("Te"), got.Get("X-Hop"), tt.want)
				}
			})
		}
	}
}

// A half-closed connection can still be read.
func TestH8_TransportUpgradesCanBeHalfClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: count\r\n\r\n")
		_ = rw.Flush()
		all, _ := io.ReadAll(rw) // until the client has half-closed
		_, _ = fmt.Fprintf(conn, "%d bytes", len(all))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	c, tr := transport(t, weirhttp.Options{}, base.RoundTrip)
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+listener.Addr().String()+"/", nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "count")
	resp, err := c.Do(r)
	if err != nil || resp.StatusCode != 101 {
		t.Fatalf("got %v, %v; want 101", resp, err)
	}
	conn := resp.Body.(io.ReadWriteCloser)
	_, _ = io.WriteString(conn, "hello")
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("the connection has no CloseWrite")
	}
	if err := half.CloseWrite(); err != nil {
		t.Errorf("CloseWrite = %v", err)
	}
	if got := tr.Stats().Streams; got != 1 {
		t.Errorf("Streams = %d after CloseWrite; want 1", got)
	}
	if b, err := io.ReadAll(conn); string(b) != "5 bytes" || err != nil {
		t.Errorf("after CloseWrite the other side sent %q, %v; want 5 bytes", b, err)
	}
	_ = conn.Close()
	if got := tr.Stats().Streams; got != 0 {
		t.Errorf("Streams = %d after Close; want 0", got)
	}
}

type rwc struct{ io.ReadWriter }

func (rwc) Close() error { return nil }

// A server that switches protocols without an Upgrade in the request has sent no
// response.
func TestH18_TransportRefusesA101ThatNobodyAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name, method, asks, chosen string
		body                       io.ReadCloser
		ok                         bool
	}{
		{"not asked", "GET", "", "websocket", rwc{}, false},
		{"not asked, by HEAD", "HEAD", "", "websocket", rwc{}, false},
		{"not asked, by POST", "POST", "", "websocket", rwc{}, false},
		{"another protocol", "GET", "websocket", "other", rwc{}, false},
		{"one of several", "GET", "other, WebSocket", "websocket", rwc{}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, tr := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
				resp := plain(r, 101, "", "Connection", "Upgrade", "Cache-Control", "max-age=60")
				if tt.chosen != "" {
					resp.Header.Set("Upgrade", tt.chosen)
				}
				resp.Body = tt.body
				return resp, nil
			})
			r, _ := http.NewRequestWithContext(t.Context(), tt.method, "http://a/x", nil)
			if tt.asks != "" {
				r.Header.Set("Connection", "Upgrade")
				r.Header.Set("Upgrade", tt.asks)
			}
			resp, err := c.Do(r)
			if (err == nil) != tt.ok {
				t.Errorf("%s: got %v, %v; want a response: %v", tt.name, resp, err, tt.ok)
			}
			if err == nil {
				_ = resp.Body.Close()
			}
			synctest.Wait() // a call ends after its response
			if got := tr.Stats(); got.Streams != 0 || got.InFlight != 0 || got.Hits != 0 {
				t.Errorf("%s: %+v; want nothing in flight", tt.name, got)
			}
		})
	}
}

// If a handler aborts before its headers, its client sees a reset, and so do
// the clients that waited for the same call.
func TestH5_AbortBeforeTheHeadIsAReset(t *testing.T) {
	handlers := map[string]http.HandlerFunc{
		"at once": func(http.ResponseWriter, *http.Request) { time.Sleep(slow); panic(http.ErrAbortHandler) },
		"after a status": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			time.Sleep(slow)
			panic(http.ErrAbortHandler)
		},
		"after a little": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "a little")
			time.Sleep(slow)
			panic(http.ErrAbortHandler)
		},
	}
	for name, origin := range handlers {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			if method == "HEAD" && name != "at once" {
				continue // its headers are the whole response
			}
			both(t, func(t *testing.T, p protocol) {
				synctest.Test(t, func(t *testing.T) {
					s := open(t, p, weirhttp.Options{}, origin)
					for _, r := range s.together(5, func(int) *http.Request { return s.request(t.Context(), method, "/x") }) {
						if r.err == nil {
							t.Errorf("%s, %s: got %d %q; want a reset", name, method, r.status, r.body)
						}
					}
				})
			})
		}
	}
}

// Over HTTP/1.0 a FIN would look like the end of a body, so there is no response at
// all.
func TestH5_AbortBeforeTheHeadOverHTTP10(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		conn, err := s.client.Transport.(*http.Transport).DialContext(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "GET /x HTTP/1.0\r\nHost: a\r\n\r\n")
		if line, err := bufio.NewReader(conn).ReadString('\n'); line != "" || err == nil {
			t.Errorf("got %q, %v; want nothing", line, err)
		}
	})
}

// A gateway sends a 502 instead of a reset, and preferably a stale response.
func TestH5_AbortWithSomethingBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		aborts := false
		s := open(t, h1, weirhttp.Options{Gateway: true}, func(w http.ResponseWriter, r *http.Request) {
			if aborts {
				w.WriteHeader(200)
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Cache-Control", "max-age=1, stale-if-error=60")
			_, _ = io.WriteString(w, "v")
		})
		s.get("/x").want(t, 200, "v")
		aborts = true
		time.Sleep(2 * time.Second)
		s.get("/x").want(t, 200, "v")
		if r := s.get("/y"); r.status != 502 {
			t.Errorf("a forwarder's abort = %d, %v; want 502", r.status, r.err)
		}
	})
}
