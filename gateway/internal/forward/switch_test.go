package forward_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const switching = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

// Changes to responses also apply to one that switches protocols, and removed
// fields are removed from early hints too.
func TestH17_ChangesHoldForA101(t *testing.T) {
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		readHead(br)
		io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nX-Internal: 0\r\nLink: </a>\r\n\r\n")
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Internal: 1\r\nA: 1\r\n\r\n")
		br.ReadByte()
	})
	r.f.RemoveResponse = []string{"x-internal"}
	r.f.SetResponse = http.Header{"a": {"2"}, "X-New": {"3", "4"}}
	c := r.client()
	c.send(switching)
	hints, err := readHead(c.br)
	if err != nil || strings.Contains(hints, "X-Internal") || !strings.Contains(hints, "Link: </a>\r\n") {
		t.Errorf("the hints were %q, %v; want Link and no X-Internal", hints, err)
	}
	head, err := readHead(c.br)
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") || strings.Contains(head, "X-Internal") {
		t.Errorf("the header was %q, %v; want 101 and no X-Internal", head, err)
	}
	for _, want := range []string{"A: 2\r\n", "X-New: 3\r\nX-New: 4\r\n", "Connection: Upgrade\r\n", "Upgrade: websocket\r\n"} {
		if !strings.Contains(head, want) {
			t.Errorf("the header was %q; want %q in it", head, want)
		}
	}
}

// Tunnels and event streams have a separate idle timeout.
func TestH8_StreamIdleTimeout(t *testing.T) {
	for _, tt := range []struct {
		name, request, head string
		stream              time.Duration
		want                time.Duration
	}{
		{"a tunnel", switching, "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket", time.Hour, time.Hour},
		{"a tunnel by the other", switching, "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket", 0, time.Minute},
		{"a shorter one", switching, "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket", time.Second, time.Second},
		{"events", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200 OK\r\nContent-Type: text/event-stream; charset=utf-8", time.Hour, time.Hour},
		{"no events", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "200 OK\r\nContent-Type: text/plain", time.Hour, time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRigOn(t, pipes, func(c net.Conn, br *bufio.Reader) {
					readHead(br)
					io.WriteString(c, "HTTP/1.1 "+tt.head+"\r\n\r\n")
					br.ReadByte() // until the Forwarder closes the connection
				})
				r.f.IdleTimeout, r.f.StreamIdleTimeout = time.Minute, tt.stream
				c := r.client()
				begin := time.Now()
				c.send(tt.request)
				c.rest()
				if d := time.Since(begin); d != tt.want {
					t.Errorf("it ended after %v; want %v", d, tt.want)
				}
			})
		})
	}
}
