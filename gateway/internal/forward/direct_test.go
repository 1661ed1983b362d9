package forward_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway/internal/forward"
)

// netHTTP is set in the process started by TestOverNetHTTP.
var netHTTP = os.Getenv("WEIR_TEST_NET_HTTP") != ""

// Requests without a body are sent without net/http's Transport. All tests of
// this package must also pass with it.
func TestOverNetHTTP(t *testing.T) {
	if netHTTP {
		return // this is the started process
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1", "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(os.Environ(), "WEIR_TEST_NET_HTTP=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// fetchBody sends a request through tr, and returns the body of the response.
func fetchBody(ctx context.Context, tr *forward.Transport, path string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://origin.test"+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// echo responds to each request with its path, as long as fn returns true.
func echo(fn func(c net.Conn, path string) bool) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil || !fn(c, r.URL.Path) {
				return
			}
		}
	}
}

func answer(c net.Conn, path string) {
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
}

var errLeft = errors.New("the client has left")

func TestH5_CancelEndsTheCall(t *testing.T) {
	for _, begun := range []bool{false, true} {
		came, gone := make(chan struct{}), make(chan struct{})
		tr := serve(t, loopback(t), func(c net.Conn, br *bufio.Reader) {
			http.ReadRequest(br)
			if begun {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")
			}
			close(came)
			br.ReadByte() // until the other side closes
			close(gone)
		}).transport(t, "http")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-came
			cancel(errLeft)
		}()
		if got, err := fetchBody(ctx, tr, "/"); !errors.Is(err, errLeft) {
			t.Errorf("with a response begun: %t: GET = %q, %v; want %v", begun, got, err, errLeft)
		}
		<-gone
	}
}

// No request gets the response to another one, whatever the server does to its
// connections and the clients do to their requests.
func TestH5_ResponsesBelongToTheirRequests(t *testing.T) {
	tr := serve(t, loopback(t), echo(func(c net.Conn, path string) bool {
		switch rand.IntN(12) {
		case 0:
			return false // no response
		case 1:
			answer(c, path)
			return false // the connection is closed after it
		case 2:
			// One response too many. It must come in one piece with the first:
			// once the next request was sent, any client would take it for the
			// response to that.
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%sHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother", len(path), path)
		case 3:
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path)+1, path)
			return false // cut off
		case 4:
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(path))+"\r\n\r\n")
			<-time.After(time.Duration(rand.IntN(3)) * time.Millisecond)
			io.WriteString(c, path)
		case 5:
			fmt.Fprintf(c, "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(path), path)
		default:
			answer(c, path)
		}
		return true
	})).transport(t, "http")
	var whole atomic.Int64
	var clients sync.WaitGroup
	for i := range 16 {
		clients.Go(func() {
			for j := range 200 {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(8) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(1000))*time.Microsecond, cancel)
				}
				path := fmt.Sprintf("/%d/%d", i, j)
				got, err := fetchBody(ctx, tr, path)
				if err == nil && got != path {
					t.Errorf("GET %s = %q; want its own path", path, got)
				}
				if err == nil {
					whole.Add(1)
				}
				cancel()
			}
		})
	}
	clients.Wait()
	if n := whole.Load(); n < 16*200/4 {
		t.Errorf("%d of %d responses were complete; does the test server work?", n, 16*200)
	}
}

// The header of a response reaches the client even if only the beginning of the
// first chunk has arrived with it.
func TestH4_HeadDoesNotWaitForTheRestOfAChunk(t *testing.T) {
	for _, begun := range []string{"", "5", "5\r\n"} {
		seen := make(chan struct{})
		r := newRigOn(t, loopback, func(c net.Conn, br *bufio.Reader) {
			http.ReadRequest(br)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+begun)
			<-seen
			io.WriteString(c, "5\r\nhello\r\n0\r\n\r\n"[len(begun):])
		})
		c := r.client()
		c.send("GET / HTTP/1.1\r\nHost: origin.test\r\n\r\n")
		if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 200 ") {
			t.Errorf("after %q: header %q; want 200", begun, head)
		}
		close(seen)
	}
}
