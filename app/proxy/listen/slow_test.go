package listen_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// pipes is a listener with connections in memory. A write to one of them returns when
// the other side has read all of it.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dial connects a client.
func (p *pipes) dial(t *testing.T) net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	t.Cleanup(func() { client.Close() })
	return client
}

// slow runs a test against a server with the default limits, in a bubble.
func slow(t *testing.T, h http.HandlerFunc, test func(t *testing.T, c net.Conn)) {
	t.Helper()
	slowWith(t, listen.Config{}, h, test)
}

func slowWith(t *testing.T, cfg listen.Config, h http.HandlerFunc, test func(t *testing.T, c net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		listen.ServeOn(t, p, cfg, h)
		test(t, p.dial(t))
		time.Sleep(2 * time.Second) // for clients that are still trying to send
	})
}

// send writes text, and fails the test if the server does not read it.
func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatalf("send %.40q: %v", text, err)
	}
}

// cutAfter reads until the server closes the connection, and fails the test if that
// does not happen after d. It returns what was read.
func cutAfter(t *testing.T, c net.Conn, d time.Duration) string {
	t.Helper()
	start := time.Now()
	b, _ := io.ReadAll(c)
	if took := time.Since(start); took != d {
		t.Errorf("the connection ended after %v with %q; want %v", took, b, d)
	}
	return string(b)
}

func TestH19_SlowHeadIsCut(t *testing.T) {
	slow(t, func(http.ResponseWriter, *http.Request) { t.Error("a request got through") }, func(t *testing.T, c net.Conn) {
		go func() {
			for _, b := range []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n") {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		cutAfter(t, c, 10*time.Second)
	})
}

func TestH19_IdleConnectionIsClosed(t *testing.T) {
	slow(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, c net.Conn) {
		send(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if got := cutAfter(t, c, time.Minute); !strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("read %q; want a response", got)
		}
	})
}

func TestH19_BigHeadIsRefused(t *testing.T) {
	slow(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, c net.Conn) {
		go io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 80<<10)+"\r\n\r\n")
		status, err := bufio.NewReader(c).ReadString('\n')
		if !strings.HasPrefix(status, "HTTP/1.1 431") {
			t.Errorf("read %q, %v; want 431", status, err)
		}
	})
}

// A body can take any time as long as it makes progress.
func TestH19_SlowBodyIsCutWhenItStandsStill(t *testing.T) {
	slow(t, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		b, err := io.ReadAll(r.Body)
		if took := time.Since(start); string(b) != "0123456789" || !errors.Is(err, os.ErrDeadlineExceeded) || took != 320*time.Second {
			t.Errorf("the body was %q, %v after %v; want ten bytes in 290 s and the end 30 s later", b, err, took)
		}
		w.WriteHeader(http.StatusRequestTimeout)
	}, func(t *testing.T, c net.Conn) {
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n")
		go func() {
			for _, b := range []byte("0123456789") {
				time.Sleep(29 * time.Second)
				c.Write([]byte{b})
			}
		}()
		if got := cutAfter(t, c, 320*time.Second); !strings.Contains(got, "408") || !strings.Contains(got, "Connection: close") {
			t.Errorf("read %q; want 408, and the connection closed", got)
		}
	})
}

// A handler can read a body as late as it likes. Once the body has been read, the
// connection waits for the response without a time-out.
func TestH19_SlowHandlerIsNotTheClientsFault(t *testing.T) {
	slow(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		b, err := io.ReadAll(r.Body)
		time.Sleep(time.Hour)
		if r.Context().Err() != nil || err != nil {
			t.Errorf("the request ended: %v, %v", r.Context().Err(), err)
		}
		w.Write(b)
	}, func(t *testing.T, c net.Conn) {
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
		if got := cutAfter(t, c, 2*time.Hour+time.Minute); !strings.HasSuffix(got, "\r\n\r\nabc") {
			t.Errorf("read %q; want the body back", got)
		}
	})
}

// The server discards the part of a body that a handler leaves unread, within the
// time-out.
func TestH19_BodyThatNobodyReadsIsCutToo(t *testing.T) {
	slow(t, func(w http.ResponseWriter, r *http.Request) {}, func(t *testing.T, c net.Conn) {
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n012")
		cutAfter(t, c, 30*time.Second)
	})
}

// A response can take any time as long as the client reads some of it.
func TestH19_ReaderThatDoesNotReadIsCut(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	var failed atomic.Int64
	slow(t, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		_, err := io.WriteString(w, big)
		failed.Store(int64(time.Since(start)))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the write ended with %v; want a deadline", err)
		}
	}, func(t *testing.T, c net.Conn) {
		send(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		for range 10 {
			time.Sleep(29 * time.Second)
			if _, err := io.ReadFull(c, make([]byte, 1000)); err != nil {
				t.Fatalf("a slow reader was cut: %v", err)
			}
		}
		// Now the client stops reading. If it read something just after the timer was
		// started, the timer has to expire once more.
		time.Sleep(time.Minute)
		if after := time.Duration(failed.Load()); after < 320*time.Second || after > 350*time.Second {
			t.Errorf("the write failed after %v; want 30 to 60 s after the last read at 290 s", after)
		}
	})
}

// A deadline that the server or a handler sets applies in addition to ours.
func TestExplicitWriteDeadline(t *testing.T) {
	slow(t, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		http.NewResponseController(w).SetWriteDeadline(start.Add(7 * time.Second))
		_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
		if took := time.Since(start); took != 7*time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the write ended after %v with %v; want 7 s", took, err)
		}
	}, func(t *testing.T, c net.Conn) {
		send(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		time.Sleep(3 * time.Second)
		io.ReadFull(c, make([]byte, 1000)) // progress does not extend it
		time.Sleep(10 * time.Second)
	})
}

func TestH19_LimitsThatAreSwitchedOff(t *testing.T) {
	off := listen.Config{Limits: listen.Limits{Read: -1, Write: -1}}
	slowWith(t, off, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if string(b) != "abc" || err != nil {
			t.Errorf("the body was %q, %v", b, err)
		}
		io.WriteString(w, strings.Repeat("x", 1<<16))
	}, func(t *testing.T, c net.Conn) {
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab")
		time.Sleep(time.Hour)
		send(t, c, "c")
		time.Sleep(time.Hour)
		if got := cutAfter(t, c, time.Minute); len(got) < 1<<16 {
			t.Errorf("read %d bytes; want all", len(got))
		}
	})
}

// frame returns an HTTP/2 frame (RFC 9113, section 4.1).
func frame(kind, flags byte, stream uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}) + payload
}

const (
	preface   = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	noWindow  = "\x00\x04\x00\x00\x00\x00" // SETTINGS_INITIAL_WINDOW_SIZE = 0
	getHead   = "\x82\x84\x86\x41\x01a"    // GET / http, authority "a" (RFC 7541, appendix A)
	postHead  = "\x83\x84\x86\x41\x01a"
	endStream = 0x1
	endHead   = 0x4
)

// resetAfter reads frames until the server resets the stream, and fails the test if
// that does not happen after d.
func resetAfter(t *testing.T, c net.Conn, stream byte, d time.Duration) {
	t.Helper()
	start := time.Now()
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(c, head); err != nil {
			t.Fatalf("no reset after %v: %v", time.Since(start), err)
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		io.ReadFull(c, payload)
		switch head[3] {
		case 3: // RST_STREAM
			if took := time.Since(start); head[8] != stream || took != d {
				t.Errorf("stream %d was reset after %v; want stream %d after %v", head[8], took, stream, d)
			}
			return
		case 4: // SETTINGS
			if head[4] == 0 {
				go io.WriteString(c, frame(4, 1, 0, ""))
			}
		case 6: // PING, to check that the client is still connected
			go io.WriteString(c, frame(6, 1, 0, string(payload)))
		}
	}
}

// The connection makes progress, but the stream's window does not open.
func TestH19_StreamThatTakesNothingIsReset(t *testing.T) {
	for name, size := range map[string]int{"blocked in the handler": 1 << 20, "blocked after it": 100} {
		t.Run(name, func(t *testing.T) {
			slowWith(t, listen.Config{H2C: true}, func(w http.ResponseWriter, r *http.Request) {
				time.Sleep(time.Hour) // which is not the client's fault
				io.WriteString(w, strings.Repeat("x", size))
			}, func(t *testing.T, c net.Conn) {
				go io.WriteString(c, preface+frame(4, 0, 0, noWindow)+frame(1, endStream|endHead, 1, getHead))
				resetAfter(t, c, 1, time.Hour+30*time.Second)
			})
		})
	}
}

func TestH19_StreamThatSendsNothingIsCut(t *testing.T) {
	slowWith(t, listen.Config{H2C: true}, func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		_, err := io.ReadAll(r.Body)
		if took := time.Since(start); took != 30*time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the body ended after %v with %v; want 30 s and a deadline", took, err)
		}
		panic(http.ErrAbortHandler)
	}, func(t *testing.T, c net.Conn) {
		go io.WriteString(c, preface+frame(4, 0, 0, "")+frame(1, endHead, 1, postHead))
		resetAfter(t, c, 1, 30*time.Second)
	})
}

func TestH19_H2CIsOffByDefault(t *testing.T) {
	slow(t, func(http.ResponseWriter, *http.Request) { t.Error("a request got through") }, func(t *testing.T, c net.Conn) {
		go io.WriteString(c, preface+frame(4, 0, 0, "")+frame(1, endStream|endHead, 1, getHead))
		if got := cutAfter(t, c, 0); !strings.HasPrefix(got, "HTTP/1.1 505") {
			t.Errorf("read %q; want 505", got)
		}
	})
}
