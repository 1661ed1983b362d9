package forward_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/gateway/internal/fault"
	"github.com/weir-go/weir/gateway/internal/forward"
)

// bare are responses that end with their heads, and behind each a body that does not
// belong there.
var bare = []struct{ name, method, head, behind string }{
	{"HEAD", "HEAD", "200 OK\r\nContent-Length: 4\r\n", "more"},
	{"HEAD with chunks", "HEAD", "200 OK\r\nTransfer-Encoding: chunked\r\n", "4\r\nmore\r\n0\r\n\r\n"},
	{"HEAD that failed", "HEAD", "500 Failed\r\nContent-Length: 4\r\n", "more"},
	{"HEAD and a response", "HEAD", "200 OK\r\nContent-Length: 40\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"},
	{"204", "POST", "204 None\r\n", "more"},
	{"204 with an empty length", "DELETE", "204 None\r\nContent-Length: 0\r\n", "more"},
	{"304", "GET", "304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 4\r\n", "more"},
	{"304 without a length", "GET", "304 Not Modified\r\nETag: \"a\"\r\n", "<html>"},
}

// A response to HEAD, a 204 and a 304 end with their heads (RFC 9112, section 6.3, rule
// 1). If a body follows, each of many such responses is right, so are the responses to
// the requests between them, and nothing counts against the server.
func TestH5_AResponseWithoutABodyEndsWithItsHead(t *testing.T) {
	for _, tt := range bare {
		for _, scheme := range []string{"http", "https"} {
			for _, net1 := range []bool{false, true} {
				t.Run(fmt.Sprint(tt.name, " ", scheme, " net/http=", net1), func(t *testing.T) {
					fn := func(c net.Conn, br *bufio.Reader) {
						for {
							h, err := readHead(br)
							if err != nil {
								return
							}
							if strings.Contains(h, "/next ") {
								io.WriteString(c, ok)
								continue
							}
							io.WriteString(c, "HTTP/1.1 "+tt.head+"\r\n"+tt.behind)
						}
					}
					secured, options := secure(t, fn)
					if scheme == "https" {
						fn = secured
					}
					tr := serve(t, loopback(t), fn).transport(t, scheme, options, func(o *forward.Options) { o.NetHTTP = net1 })
					for i := range 20 {
						req, _ := http.NewRequest(tt.method, "http://x/", nil)
						resp, err := tr.RoundTrip(req)
						if err != nil {
							t.Fatalf("%s %d = %v; want %.3s", tt.method, i, err, tt.head)
						}
						body, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						if got := resp.Status[:3]; got != tt.head[:3] || len(body) > 0 || err != nil {
							t.Fatalf("%s %d = %s, %q, %v; want %.3s without a body", tt.method, i, got, body, err, tt.head)
						}
						req, _ = http.NewRequest("GET", "http://x/next", nil)
						if resp, err = tr.RoundTrip(req); err != nil {
							t.Fatalf("GET after %d responses = %v; want 200", i+1, err)
						}
						if body, err = io.ReadAll(resp.Body); string(body) != "ok" {
							t.Fatalf("GET after %d responses = %q, %v; want ok", i+1, body, err)
						}
						resp.Body.Close()
					}
				})
			}
		}
	}
}

// If such a body arrives when the next request is in progress, that request fails, but
// the server is not at fault, and it happens once.
func TestH24_ABodyThatDoesNotBelongThereBlamesNoServer(t *testing.T) {
	var gets atomic.Int32
	o := serve(t, loopback(t), func(c net.Conn, br *bufio.Reader) {
		behind := ""
		for {
			h, err := readHead(br)
			if err != nil {
				return
			}
			io.WriteString(c, behind)
			if behind = ""; strings.HasPrefix(h, "HEAD ") {
				behind = "more"
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
				continue
			}
			gets.Add(1)
			io.WriteString(c, ok)
		}
	})
	tr := o.transport(t, "http")
	failed := 0
	for range 20 {
		req, _ := http.NewRequest("HEAD", "http://x/", nil)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		body, err := get(tr)
		if err != nil {
			failed++
			if fault.Upstreams(err) || errors.As(err, new(*fault.UnreachableError)) {
				t.Errorf("GET = %v, which counts against the server", err)
			}
		} else if body != "ok" {
			t.Errorf("GET = %q; want ok", body)
		}
	}
	if failed > 1 || gets.Load() != 20 {
		t.Errorf("%d requests failed and %d arrived; want at most 1, and 20", failed, gets.Load())
	}
}
