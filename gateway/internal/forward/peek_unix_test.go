//go:build unix

package forward_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// readable waits until c has bytes to read, or its peer has closed it.
func readable(t *testing.T, c net.Conn) {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err != syscall.EAGAIN
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A connection that the server has closed, or on which it has sent unrequested
// bytes, is not used for the next request.
func TestH15_DeadConnectionsAreNotUsed(t *testing.T) {
	if netHTTP {
		t.Skip("net/http reads idle connections in the background, whenever it gets to it")
	}
	for name, after := range map[string]func(c net.Conn){
		"closed": func(c net.Conn) { c.Close() },
		"reset":  resetConn,
		"bytes":  func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother") },
	} {
		t.Run(name, func(t *testing.T) {
			read, over := make(chan struct{}), make(chan struct{})
			defer close(over)
			var conns atomic.Int32
			o := serve(t, loopback(t), func(c net.Conn, br *bufio.Reader) {
				n := conns.Add(1)
				echo(func(c net.Conn, path string) bool {
					answer(c, path)
					if n == 1 {
						<-read // otherwise the client gets it in one piece with the response
						after(c)
						<-over
					}
					return n > 1
				})(c, br)
			})
			first := make(chan net.Conn, 4)
			tr := o.transport(t, "http", func(opts *forward.Options) {
				opts.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
					c, err := o.dial(ctx, network, address)
					if err == nil {
						first <- c
					}
					return c, err
				}
			})
			for i, path := range []string{"/one", "/two", "/three"} {
				if got, err := fetchBody(t.Context(), tr, path); got != path || err != nil {
					t.Fatalf("GET %s = %q, %v; want its path", path, got, err)
				}
				if i == 0 {
					close(read)
					readable(t, <-first)
				}
			}
			if n := conns.Load(); n != 2 {
				t.Errorf("%d connections; want 2: one that died, and one for the other requests", n)
			}
		})
	}
}
