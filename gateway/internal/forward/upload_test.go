package forward_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
)

const twice = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"

// early is an origin that responds before it has read the body, and never reads
// it.
func early(t *testing.T, answer string) func(net.Conn, *bufio.Reader) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func(c net.Conn, br *bufio.Reader) {
		h, err := readHead(br)
		if err != nil {
			return
		}
		if strings.HasPrefix(h, "GET /next") {
			io.WriteString(c, ok)
			return
		}
		io.WriteString(c, answer)
		<-over
	}
}

// A body that the origin does not want is drained up to the limit, and the
// connection continues. Beyond the limit the connection ends, with a complete
// response.
func TestH18_UnreadBodies(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!",
		"HTTP/1.1 413 Too Large\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno!\r\n0\r\n\r\n",
	} {
		for _, tt := range []struct {
			size  int
			limit int64
			kept  bool
		}{
			{size: 1 << 20, limit: 2 << 20, kept: true},
			{size: 8 << 20, limit: 1 << 20},
			{size: 2 << 20, limit: -1},
		} {
			for _, chunked := range []bool{false, true} {
				r := newRig(t, early(t, answer))
				r.f.MaxDrain = tt.limit
				c := r.client()
				head, tail := fmt.Sprintf("Content-Length: %d\r\n\r\n", tt.size), ""
				if chunked {
					head, tail = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", tt.size), "\r\n0\r\n\r\n"
				}
				c.send("POST / HTTP/1.1\r\nHost: h\r\n" + head + "x")
				if status, err := c.br.Peek(12); string(status) != "HTTP/1.1 413" {
					t.Fatalf("%d bytes, limit %d: the response begins with %q, %v; want 413", tt.size, tt.limit, status, err)
				}
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					io.WriteString(c.Conn, strings.Repeat("x", tt.size-1)+tail+twice)
				}()
				resp, got, err := c.answer("POST")
				if resp.StatusCode != 413 || got != "no!" || err != nil {
					t.Errorf("%d bytes, limit %d: %s %q, %v; want 413 no!", tt.size, tt.limit, resp.Status, got, err)
				}
				next, err := http.ReadResponse(c.br, nil)
				if kept := err == nil && next.StatusCode == 200; kept != tt.kept {
					t.Errorf("%d bytes, limit %d, chunked %t: the next response was %v, %v; want one = %t", tt.size, tt.limit, chunked, next, err, tt.kept)
				}
				c.Close()
				<-sent
			}
		}
	}
}

// Bytes after a broken or stalled body are not a request.
func TestH18_NoRequestOutOfABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var smuggled atomic.Int32
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			h, _ := readHead(br)
			if strings.Contains(h, "/next") {
				smuggled.Add(1)
			}
			io.WriteString(c, "HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nno!")
			io.Copy(io.Discard, br)
		})
		for _, body := range []string{
			"Content-Length: 100\r\n\r\nabc",
			"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
			"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
			"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
		} {
			c := r.client()
			c.send("POST / HTTP/1.1\r\nHost: h\r\n" + body)
			begin := time.Now()
			go func() {
				time.Sleep(20 * time.Second)
				io.WriteString(c.Conn, twice)
			}()
			resp, got, err := c.answer("POST")
			if err != nil {
				t.Errorf("%q: %s %q, %v; want a complete response", body, resp.Status, got, err)
			}
			if rest, _ := c.rest(); rest != "" {
				t.Errorf("%q: the response was followed by %q; want the end", body, rest)
			}
			if d := time.Since(begin); d > 10*time.Second {
				t.Errorf("%q: the connection lasted %v; want it cut off", body, d)
			}
			c.Close()
			time.Sleep(time.Minute)
		}
		if n := smuggled.Load(); n != 0 {
			t.Errorf("%d requests were smuggled in bodies; want none", n)
		}
	})
}

// Origin and client can send at the same time.
func TestH17_BothWaysAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			p := make([]byte, 100)
			for {
				n, err := req.Body.Read(p)
				if n > 0 {
					fmt.Fprintf(c, "%x\r\n%s\r\n", n, strings.ToUpper(string(p[:n])))
				}
				if err != nil {
					break
				}
			}
			io.WriteString(c, "0\r\n\r\n")
		})
		r.f.IdleTimeout = 10 * time.Second
		c := r.client()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(9 * time.Second)
			c.send("2\r\nab\r\n")
			var p [2]byte
			if _, err := io.ReadFull(resp.Body, p[:]); err != nil || string(p[:]) != "AB" {
				t.Errorf("the echo was %q, %v; want AB", p, err)
			}
		}
		c.send("0\r\n\r\n")
		if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil {
			t.Errorf("the end was %q, %v; want none", b, err)
		}
		c.Close()
	})
}

// If the client's body breaks, the request ends at the origin, and the client
// gets an error.
func TestH19_BrokenUploads(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		idle       time.Duration
		close      bool
		want       int
	}{
		{name: "bad chunk", body: "Transfer-Encoding: chunked\r\n\r\nzz\r\n", want: 400},
		{name: "stalled", body: "Content-Length: 100\r\n\r\nabc", idle: 10 * time.Second, want: 408},
		{name: "gone", body: "Content-Length: 100\r\n\r\nabc", close: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
				req, err := http.ReadRequest(br)
				if err == nil {
					_, err = io.ReadAll(req.Body)
				}
				ended <- err
			})
			r.f.IdleTimeout = tt.idle
			begin := time.Now()
			c := r.client()
			c.send("POST / HTTP/1.1\r\nHost: h\r\n" + tt.body)
			if tt.close {
				c.Close()
			} else if resp, _, err := c.answer("POST"); resp.StatusCode != tt.want || err != nil {
				t.Errorf("%s: %s, %v; want %d", tt.name, resp.Status, err, tt.want)
			}
			if err := <-ended; err == nil {
				t.Errorf("%s: the origin got a complete body; want a broken one", tt.name)
			}
			if d := time.Since(begin); d != tt.idle {
				t.Errorf("%s: it took %v; want %v", tt.name, d, tt.idle)
			}
			c.Close()
		})
	}
}

// An origin dies while the client pauses in the middle of its body.
func TestH5_OriginGoneWhileTheClientIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			br.Peek(3)
			time.Sleep(time.Second)
		})
		begin := time.Now()
		c := r.client()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
		resp, _, err := c.answer("POST")
		if d := time.Since(begin); resp.StatusCode != 502 || err != nil || d != time.Second {
			t.Errorf("%s, %v after %v; want 502 after 1s", resp.Status, err, d)
		}
		c.Close()
	})
}

// The expectation reaches the origin, and its 100 reaches the client, once.
func TestH17_Expect(t *testing.T) {
	for _, tt := range []struct {
		name   string
		origin string // what it sends after the header
		wait   time.Duration
		want   string
	}{
		{"100 of the origin", "HTTP/1.1 100 Continue\r\n\r\n", 0, "HTTP/1.1 100 Continue"},
		{"an origin that does not know it", "", time.Second, "HTTP/1.1 100 Continue"},
		{"refused", "HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nno!", 0, "HTTP/1.1 401"},
		{"102 and then 100", "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n", 0, "HTTP/1.1 102 Processing"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var body, expect string
			r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
				h, _ := readHead(br)
				if strings.Contains(strings.ToLower(h), "\r\nexpect: 100-continue\r\n") {
					expect = "yes"
				}
				io.WriteString(c, tt.origin)
				p := make([]byte, 3)
				n, _ := io.ReadFull(br, p)
				body = string(p[:n])
				if n == 3 {
					io.WriteString(c, ok)
				}
			})
			begin := time.Now()
			c := r.client()
			c.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
			h := c.head()
			status, _, _ := strings.Cut(h, "\r\n")
			if d := time.Since(begin).Truncate(time.Second); !strings.HasPrefix(status, tt.want) || d != tt.wait {
				t.Errorf("%s: %q after %v; want %q after %v", tt.name, h, d, tt.want, tt.wait)
			}
			if tt.name == "refused" {
				if rest, _ := c.rest(); rest != "no!" {
					t.Errorf("%s: then %q; want no! and the end", tt.name, rest)
				}
			} else {
				if strings.HasPrefix(tt.name, "102") {
					c.head() // the 100 after it
				}
				c.send("abc")
				if resp, b, err := c.answer("POST"); resp.StatusCode != 200 || b != "ok" || err != nil {
					t.Errorf("%s: then %s %q, %v; want 200 ok", tt.name, resp.Status, b, err)
				}
			}
			c.Close()
			synctest.Wait()
			if want := map[bool]string{true: "", false: "abc"}[tt.name == "refused"]; body != want || expect != "yes" {
				t.Errorf("%s: the origin got %q, expectation %q; want %q, yes", tt.name, body, expect, want)
			}
		})
	}
}

// A client that got no 100 before the response does not get one afterwards,
// however long the response takes.
func TestH17_NotAskedAfterTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			io.WriteString(c, "HTTP/1.1 401 No\r\nContent-Length: 3\r\n\r\nn")
			time.Sleep(3 * time.Second)
			io.WriteString(c, "o!")
			io.Copy(io.Discard, br)
		})
		begin := time.Now()
		c := r.client()
		c.send("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
		c.head()
		if rest, _ := c.rest(); rest != "no!" {
			t.Errorf("the response was %q; want no!", rest)
		}
		if d := time.Since(begin); d >= 4*time.Second {
			t.Errorf("the connection lasted %v; want it closed without waiting for the body", d)
		}
		c.Close()
	})
}

// A client whose body ends too early gets a 400, whichever the transport notices
// first: the early end, or the end of the request's context. net/http ends that
// context before it returns the error.
func TestH19_BrokenUploadAfterItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &deadlines{ResponseRecorder: httptest.NewRecorder(), set: make(chan struct{})}
		body := readerFunc(func([]byte) (int, error) {
			cancel()
			<-w.set
			return 0, io.ErrUnexpectedEOF
		})
		r := httptest.NewRequestWithContext(ctx, "POST", "/", io.NopCloser(body))
		r.ContentLength = 10
		f := &forward.Forwarder{RoundTrip: func(out *http.Request) (*http.Response, error) {
			go io.Copy(io.Discard, out.Body) // ends with the deadline
			<-out.Context().Done()
			out.Body.Close()
			return nil, out.Context().Err()
		}}
		f.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			t.Errorf("the client got %d; want 400", w.Code)
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// deadlines is a response whose first read deadline ends a wait.
type deadlines struct {
	*httptest.ResponseRecorder
	set  chan struct{}
	once sync.Once
}

func (d *deadlines) SetReadDeadline(time.Time) error {
	d.once.Do(func() { close(d.set) })
	return nil
}
