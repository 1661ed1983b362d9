package listen_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// refusing responds with the status in the path, without reading the body. /read/413 reads
// a part of it first.
var refusing = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path[1:]
	if rest, ok := strings.CutPrefix(path, "read/"); ok {
		io.CopyN(io.Discard, r.Body, 1<<20)
		path = rest
	}
	code := 0
	fmt.Sscan(path, &code)
	http.Error(w, "refused", code)
})

// upload sends a request with a body of size bytes, all of it before it reads anything, as
// many clients do, and returns the status.
func upload(c net.Conn, path string, size int, chunked bool) (int, error) {
	framing := fmt.Sprintf("Content-Length: %d\r\n", size)
	if chunked {
		framing = "Transfer-Encoding: chunked\r\n"
	}
	if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: h\r\n%s\r\n", path, framing); err != nil {
		return 0, err
	}
	part := make([]byte, 64<<10)
	for left := size; left > 0; left -= len(part) {
		part = part[:min(left, len(part))]
		if chunked {
			fmt.Fprintf(c, "%x\r\n", len(part))
		}
		if _, err := c.Write(part); err != nil {
			return 0, fmt.Errorf("%d bytes before the end of the body: %w", left, err)
		}
		if chunked {
			io.WriteString(c, "\r\n")
		}
	}
	if chunked {
		io.WriteString(c, "0\r\n\r\n")
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	if b, err := io.ReadAll(r.Body); err != nil || string(b) != "refused\n" {
		return 0, fmt.Errorf("body %q, %v", b, err)
	}
	return r.StatusCode, nil
}

// H19: a response that comes before the end of an upload reaches a client that sends the
// whole body before it reads. A reset would make it lose the response.
func TestH19_EarlyResponseReachesAClientThatIsStillSending(t *testing.T) {
	const size = 20 << 20
	for _, secure := range []bool{false, true} {
		config := listen.Config{FastPath: true, H2C: !secure}
		if secure {
			config.TLS = certified(t)
		}
		s := serve(t, config, listen.Options{Handler: refusing})
		for _, w := range []struct {
			path    string
			want    int
			chunked bool
		}{{"/413", 413, false}, {"/429", 429, false}, {"/503", 503, false}, {"/503", 503, true}, {"/read/413", 413, false}, {"/read/413", 413, true}} {
			t.Run(fmt.Sprintf("TLS %v%s chunked %v", secure, w.path, w.chunked), func(t *testing.T) {
				c := dial(t, s)
				if secure {
					c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
				}
				defer c.Close()
				if got, err := upload(c, w.path, size, w.chunked); got != w.want || err != nil {
					t.Errorf("the client got %d, %v; want %d", got, err, w.want)
				}
			})
		}
	}
}

// H19: over HTTP/2, the response comes with a reset of its stream that is no error, and the
// connection remains usable.
func TestH19_EarlyResponseOverHTTP2(t *testing.T) {
	for _, secure := range []bool{false, true} {
		config := listen.Config{H2C: !secure}
		if secure {
			config.TLS = certified(t)
		}
		var conns atomic.Int64
		s := serve(t, config, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ProtoMajor != 2 {
				t.Errorf("the request came over %s", r.Proto)
			}
			refusing(w, r)
		})})
		var protocols http.Protocols
		protocols.SetHTTP2(secure)
		protocols.SetUnencryptedHTTP2(!secure)
		client := http.Client{Transport: &http.Transport{
			Protocols: &protocols, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				conns.Add(1)
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}}
		defer client.CloseIdleConnections()
		for _, want := range []int{413, 429, 503} {
			resp, err := client.Post(fmt.Sprintf("%s://%s/%d", s.Config().Scheme(), s.Address(), want), "", io.LimitReader(neverEnding{}, 20<<20))
			if err != nil {
				t.Fatalf("with TLS %v: %v; want %d", secure, err, want)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != want || string(b) != "refused\n" || err != nil {
				t.Errorf("with TLS %v: %s %q, %v; want %d", secure, resp.Status, b, err, want)
			}
		}
		if n := conns.Load(); n != 1 {
			t.Errorf("with TLS %v: %d connections; want 1", secure, n)
		}
	}
}

// relay connects to the server over a line with a delay and a rate, and returns the
// client's end. If the server's end is reset, the client's is, too, and what was on the
// line is lost.
func relay(t *testing.T, s *listen.Server, delay time.Duration, bytesPerSecond int) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	far := dial(t, s)
	var both sync.WaitGroup
	reset := func() {
		near.(*net.TCPConn).SetLinger(0)
		near.Close()
		far.Close()
	}
	forward := func(dst, src net.Conn) {
		type piece struct {
			b   []byte
			due time.Time
		}
		line := make(chan piece, 1<<10)
		over := make(chan struct{})
		both.Go(func() {
			defer close(over)
			for p := range line {
				time.Sleep(time.Until(p.due))
				if p.b == nil {
					dst.(*net.TCPConn).CloseWrite()
				} else if _, err := dst.Write(p.b); err != nil {
					reset()
					return
				}
			}
		})
		both.Go(func() {
			defer close(line)
			free := time.Now()
			for {
				b := make([]byte, 16<<10)
				n, err := src.Read(b)
				if err != nil && err != io.EOF {
					reset()
					return
				}
				if now := time.Now(); free.Before(now) {
					free = now
				}
				free = free.Add(time.Duration(n) * time.Second / time.Duration(bytesPerSecond))
				time.Sleep(time.Until(free))
				p := piece{b[:n], free.Add(delay)}
				if n == 0 {
					p.b = nil
				}
				select {
				case line <- p:
				case <-over:
					return
				}
				if err == io.EOF {
					return
				}
			}
		})
	}
	forward(far, near)
	forward(near, far)
	t.Cleanup(func() { client.Close(); near.Close(); far.Close(); both.Wait() })
	client.SetDeadline(time.Now().Add(30 * time.Second))
	return client
}

// H19: the same over a network: 20 MB/s with 50 ms of delay. This is the only test here
// that takes real time, a second.
func TestH19_EarlyResponseReachesADistantClient(t *testing.T) {
	s := serve(t, listen.Config{FastPath: true}, listen.Options{Handler: refusing})
	for _, want := range []int{413, 429, 503} {
		t.Run(fmt.Sprint(want), func(t *testing.T) {
			t.Parallel()
			c := relay(t, s, 50*time.Millisecond, 20<<20)
			if got, err := upload(c, fmt.Sprint("/", want), 20<<20, false); got != want || err != nil {
				t.Errorf("the client got %d, %v; want %d", got, err, want)
			}
		})
	}
}

// H19: a request without TLS to a TLS listener is answered, however long it is.
func TestH19_LongPlainRequestToTLSIsAnswered(t *testing.T) {
	s := serve(t, listen.Config{TLS: certified(t)}, listen.Options{})
	c := dial(t, s)
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8388608\r\n\r\n"+strings.Repeat("x", 8<<20)); err != nil {
		t.Fatal(err)
	}
	c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.0 400 ") || err != nil {
		t.Errorf("the client got %q, %v; want a 400", b, err)
	}
}

// A twoWay is a connection in memory whose directions can be closed one by one.
type twoWay struct {
	net.Conn // for reading
	out      net.Conn
}

func newTwoWay() (client, server *twoWay) {
	a, b := net.Pipe()
	c, d := net.Pipe()
	return &twoWay{a, d}, &twoWay{c, b}
}

func (c *twoWay) Write(p []byte) (int, error)        { return c.out.Write(p) }
func (c *twoWay) CloseWrite() error                  { return c.out.Close() }
func (c *twoWay) Close() error                       { return errors.Join(c.Conn.Close(), c.out.Close()) }
func (c *twoWay) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
func (c *twoWay) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// lingering runs test against a server that refuses uploads, in a bubble.
func lingering(t *testing.T, test func(l *listen.Lingering, dial func() net.Conn, s *listen.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, l := newPipes(), new(listen.Lingering)
		s := listen.ServeLingering(t, p, listen.Config{FastPath: true}, refusing, l)
		test(l, func() net.Conn {
			client, server := newTwoWay()
			p.conns <- server
			t.Cleanup(func() { client.Close() })
			return client
		}, s)
		time.Sleep(2 * time.Second) // for clients that are still trying to send
	})
}

// refused sends the head of an upload and reads the response, up to the end of the
// connection's other direction.
func refused(t *testing.T, c net.Conn, length int) {
	t.Helper()
	send(t, c, fmt.Sprintf("POST /503 HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", length))
	if b, err := io.ReadAll(c); !strings.HasPrefix(string(b), "HTTP/1.1 503 ") || err != nil {
		t.Fatalf("the client got %q, %v; want a 503", b, err)
	}
}

// H19: what is read after an early response has bounds.
func TestH19_LingeringCloseHasBounds(t *testing.T) {
	const huge = 1 << 30
	for _, w := range []struct {
		name   string
		length int
		send   func(c net.Conn) // until the connection is closed
		after  time.Duration
		reset  uint64
	}{
		{"a client that sends nothing", huge, func(c net.Conn) {}, listen.LingerIdle, 0},
		{"a client that sends a byte now and then", huge, func(c net.Conn) {
			for {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
			}
		}, listen.LingerTime, 1},
		{"a client that sends its body", 1 << 20, func(c net.Conn) {
			time.Sleep(time.Second)
			c.Write(make([]byte, 1<<20))
		}, time.Second, 0},
		{"a client that leaves", huge, func(c net.Conn) {
			c.Write(make([]byte, 1<<20))
			time.Sleep(time.Second)
			c.Close()
		}, time.Second, 0},
	} {
		t.Run(w.name, func(t *testing.T) {
			lingering(t, func(l *listen.Lingering, dial func() net.Conn, s *listen.Server) {
				c := dial()
				refused(t, c, w.length)
				start := time.Now()
				go w.send(c)
				for s.Aside() > 0 {
					time.Sleep(10 * time.Millisecond)
				}
				if took := time.Since(start); took < w.after || took > w.after+10*time.Millisecond || l.Reset() != w.reset {
					t.Errorf("the connection ended after %v, with %d resets; want %v, %d", took, l.Reset(), w.after, w.reset)
				}
				c.Close()
			})
		})
	}
}

// H19: no more than LingerBytes are read.
func TestH19_LingeringCloseReadsABoundedNumberOfBytes(t *testing.T) {
	lingering(t, func(l *listen.Lingering, dial func() net.Conn, s *listen.Server) {
		c := dial()
		refused(t, c, 1<<30)
		sent := 0
		for p := make([]byte, 1<<20); ; {
			n, err := c.Write(p)
			if sent += n; err != nil {
				break
			}
		}
		if sent != listen.LingerBytes || l.Reset() != 1 {
			t.Errorf("%d bytes were read, with %d resets; want %d, 1", sent, l.Reset(), listen.LingerBytes)
		}
	})
}

// H19: beyond LingerConnections, connections are closed at once and counted. A place that
// is free again is used.
func TestH19_LingeringCloseOfABoundedNumberOfConnections(t *testing.T) {
	lingering(t, func(l *listen.Lingering, dial func() net.Conn, s *listen.Server) {
		var all []net.Conn
		for range listen.LingerConnections {
			c := dial()
			refused(t, c, 1<<30)
			all = append(all, c)
		}
		more := dial()
		refused(t, more, 1<<30)
		time.Sleep(time.Second) // net/http's
		if _, err := more.Write([]byte("x")); err == nil || l.Reset() != 1 {
			t.Errorf("beyond the bound, the write returned %v, with %d resets; want an error, 1", err, l.Reset())
		}
		all[0].Close()
		synctest.Wait()
		next := dial()
		refused(t, next, 1<<30)
		if _, err := next.Write([]byte("x")); err != nil || l.Reset() != 1 {
			t.Errorf("with a free place, the write returned %v, with %d resets; want nil, 1", err, l.Reset())
		}
	})
}

// H19: a server that shuts down waits for the clients that are still sending.
func TestH19_ShutdownWaitsForLingeringConnections(t *testing.T) {
	const size = 8 << 20
	s := serve(t, listen.Config{}, listen.Options{Handler: refusing})
	c := dial(t, s)
	refused(t, c, size)
	over := make(chan error)
	go func() { over <- s.Shutdown(t.Context()) }()
	if _, err := c.Write(make([]byte, size)); err != nil {
		t.Errorf("during Shutdown, the client's write ended with %v; want nil", err)
	}
	if err := <-over; err != nil {
		t.Errorf("Shutdown = %v; want nil", err)
	}
}

// H19: Close cuts them off.
func TestH19_CloseCutsLingeringConnections(t *testing.T) {
	s := serve(t, listen.Config{}, listen.Options{Handler: refusing})
	c := dial(t, s)
	refused(t, c, 1<<30)
	s.Close()
	if _, err := io.Copy(c, neverEnding{}); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("after Close, the client's write ended with %v; want a reset", err)
	}
}

type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) { return len(p), nil }
