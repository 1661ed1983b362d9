package weirhttp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/weirhttp"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func plain(r *http.Request, status int, body string, fields ...string) *http.Response {
	h := make(http.Header)
	for i := 0; i+1 < len(fields); i += 2 {
		h.Add(fields[i], fields[i+1])
	}
	return &http.Response{
		StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func refusing(context.Context, string, string) (net.Conn, error) {
	return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
}

func fetch(t *testing.T, c *http.Client, url string) (string, error) {
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// transport returns a client over base.
func transport(t *testing.T, o weirhttp.Options, base roundTrip) (*http.Client, *weirhttp.Transport) {
	t.Helper()
	tr, err := weirhttp.NewTransport(base, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.Close(context.Background()) })
	return &http.Client{Transport: tr}, tr
}

func TestH1_TransportCoalescesAndStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		c, tr := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
			calls.Add(1)
			time.Sleep(slow)
			return plain(r, 200, "v", "Cache-Control", "max-age=60"), nil
		})
		done := make(chan string)
		for range 20 {
			go func() {
				v, err := fetch(t, c, "http://a.example/x")
				done <- fmt.Sprint(v, err)
			}()
		}
		for range 20 {
			if got := <-done; got != "v<nil>" {
				t.Errorf("got %s; want v", got)
			}
		}
		_, _ = fetch(t, c, "http://a.example/x")
		synctest.Wait()
		if got := tr.Stats(); calls.Load() != 1 || got.Joined != 19 || got.Hits != 1 || got.InFlight+got.Waiting != 0 {
			t.Errorf("%d calls, %+v; want 1, 19 joined, 1 hit", calls.Load(), got)
		}
	})
}

func TestH5_TransportErrorsAreErrors(t *testing.T) {
	failed := errors.New("no")
	synctest.Test(t, func(t *testing.T) {
		one := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		c, _ := transport(t, weirhttp.Options{Limiter: one, Observer: quiet{}}, func(r *http.Request) (*http.Response, error) {
			switch r.URL.Path {
			case "/slow":
				time.Sleep(slow)
			case "/fails":
				return nil, failed
			case "/panics":
				panic("no")
			case "/short":
				resp := plain(r, 200, "half")
				resp.ContentLength = 8
				return resp, nil
			}
			return plain(r, 200, "v"), nil
		})
		if _, err := fetch(t, c, "http://a/fails"); !errors.Is(err, failed) {
			t.Errorf("the error = %v; want %v", err, failed)
		}
		if _, err := fetch(t, c, "http://a/panics"); err == nil {
			t.Error("a panic of the transport below caused no error")
		}
		if v, err := fetch(t, c, "http://a/short"); err == nil {
			t.Errorf("a truncated response = %q; want an error", v)
		}
		go fetch(t, c, "http://a/slow")
		time.Sleep(time.Millisecond)
		var refused *limit.Error
		if _, err := fetch(t, c, "http://a/other"); !errors.As(err, &refused) {
			t.Errorf("the error = %v; want a *limit.Error", err)
		}
		time.Sleep(slow)
		c.Timeout = slow / 2
		if _, err := fetch(t, c, "http://a/slow"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error = %v; want a deadline error", err)
		}
		time.Sleep(slow)
	})
}

// closing records that it is closed.
type closing struct {
	io.Reader
	closed atomic.Bool
}

func (c *closing) Close() error { c.closed.Store(true); return nil }

func TestH8_TransportAndRequestBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		none := permits(t, limit.ConcurrencyOptions{Limit: 1, Queue: -1})
		c, _ := transport(t, weirhttp.Options{Limiter: none}, func(r *http.Request) (*http.Response, error) {
			time.Sleep(slow)
			b, _ := io.ReadAll(r.Body)
			_ = r.Body.Close()
			return plain(r, 200, string(b), "Cache-Control", "max-age=60"), nil
		})
		for i := range 2 {
			body := &closing{Reader: strings.NewReader(fmt.Sprint(i))}
			r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a/x", body) // of unknown length
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(got) != fmt.Sprint(i) {
				t.Errorf("a GET with body %d got %q", i, got)
			}
		}
		go fetch(t, c, "http://a/y")
		time.Sleep(time.Millisecond)
		body := &closing{Reader: strings.NewReader("x")}
		r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://a/x", body)
		if _, err := c.Do(r); !errors.Is(err, limit.ErrLimited) {
			t.Errorf("the error = %v; want limit.ErrLimited", err)
		}
		synctest.Wait()
		if !body.closed.Load() {
			t.Error("the body of a rejected request was not closed")
		}
		time.Sleep(slow)
	})
}

func TestH6_TransportLeavesWhenABodyIsClosedOrAContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := runtime.NumGoroutine()
		ended := 0
		c, tr := transport(t, weirhttp.Options{}, func(r *http.Request) (*http.Response, error) {
			pr, pw := io.Pipe()
			go func() {
				for r.Context().Err() == nil {
					if _, err := pw.Write(bytes.Repeat([]byte("x"), 1000)); err != nil {
						break
					}
					time.Sleep(time.Millisecond)
				}
				ended++
				_ = pw.CloseWithError(context.Cause(r.Context()))
			}()
			resp := plain(r, 200, "", "Cache-Control", "max-age=60")
			resp.Body, resp.ContentLength = pr, -1
			return resp, nil
		})
		for i := range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r, _ := http.NewRequestWithContext(ctx, "GET", fmt.Sprint("http://a/", i), nil)
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				_ = resp.Body.Close()
			} else {
				cancel()
				if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
					t.Errorf("the body ended with %v; want context.Canceled", err)
				}
			}
			time.Sleep(time.Second)
			if got := tr.Stats(); ended != i+1 || got.InFlight != 0 {
				t.Errorf("%d calls have ended, %d are in flight; want %d, 0", ended, got.InFlight, i+1)
			}
		}
		synctest.Wait()
		if got := runtime.NumGoroutine(); got > started+2 {
			t.Errorf("%d goroutines; %d at the start", got, started)
		}
	})
}

func TestH17_TransportTrailers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := dialled(t, h1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Sum", "7")
		}))
		c, _ := transport(t, weirhttp.Options{}, inner.Transport.RoundTrip)
		resp, err := c.Get("http://a/x")
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(b) != "body" || err != nil || resp.Trailer.Get("X-Sum") != "7" {
			t.Errorf("got %q, %v, trailers %v; want body and X-Sum: 7", b, err, resp.Trailer)
		}
	})
}

func TestH8_TransportUpgrades(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := dialled(t, h1, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			conn, rw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			_ = rw.Flush()
			_, _ = io.Copy(conn, rw)
		}))
		c, tr := transport(t, weirhttp.Options{}, inner.Transport.RoundTrip)
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://a/ws", nil)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", "echo")
		resp, err := c.Do(r)
		if err != nil || resp.StatusCode != 101 {
			t.Fatalf("got %v, %v; want 101", resp, err)
		}
		conn := resp.Body.(io.ReadWriteCloser)
		go func() { _, _ = io.WriteString(conn, "hello") }()
		b := make([]byte, 5)
		if _, err := io.ReadFull(conn, b); string(b) != "hello" || err != nil {
			t.Errorf("the echo = %q, %v", b, err)
		}
		_ = conn.Close()
		if got := tr.Stats().Streams; got != 0 {
			t.Errorf("Streams = %d after Close; want 0", got)
		}
	})
}
