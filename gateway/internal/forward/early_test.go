package forward_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// A hastyConn is a connection to a server that has closed it after a response, while the
// body of the request arrives: writes fail from the second on, and the response is read
// a moment later.
type hastyConn struct {
	net.Conn // nil
	writes   int
	response string
	closed   chan struct{}
}

func (c *hastyConn) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func (c *hastyConn) Read(p []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	case <-time.After(10 * time.Millisecond):
	}
	n := copy(p, c.response)
	if c.response = c.response[n:]; n == 0 {
		return 0, syscall.ECONNRESET
	}
	return n, nil
}

func (c *hastyConn) Close() error                     { close(c.closed); return nil }
func (c *hastyConn) SetDeadline(time.Time) error      { return nil }
func (c *hastyConn) SetReadDeadline(time.Time) error  { return nil }
func (c *hastyConn) SetWriteDeadline(time.Time) error { return nil }

// H17: a response that came before the server closed the connection is forwarded, though
// the rest of the body could not be sent.
func TestH17_ResponseBeforeAFailedWriteIsForwarded(t *testing.T) {
	for _, response := range []string{
		"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!",
		"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!",
		"HTTP/1.1 413 Too Large\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nno!\r\n0\r\n\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := serve(t, pipes(t), func(net.Conn, *bufio.Reader) {}).transport(t, "http", func(o *forward.Options) {
				o.Dial = func(context.Context, string, string) (net.Conn, error) {
					return &hastyConn{response: response, closed: make(chan struct{})}, nil
				}
			})
			r, err := http.NewRequest("POST", "http://origin.test/", io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20))))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatalf("%.30q: RoundTrip failed: %v", response, err)
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); resp.StatusCode != 413 || string(b) != "no!" || err != nil {
				t.Errorf("%.30q: got %s %q, %v; want 413 no!", response, resp.Status, b, err)
			}
		})
	}
}
