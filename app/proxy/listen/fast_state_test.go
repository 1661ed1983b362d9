package listen

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// H31: net/http gets one request at a time, and at most one byte of the next one,
// however much it wants to read. Otherwise the order of responses would not be certain
// when it reports an idle connection.
func TestH31_OneRequestAtATime(t *testing.T) {
	ours, client := net.Pipe()
	defer client.Close()
	s := &Server{options: Options{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }),
	}, closing: map[*framedConn]struct{}{}, asideOver: make(chan struct{}, 1)}
	c := &framedConn{Conn: ours, server: s, fast: &fastConn{server: s}}
	c.bind(t.Context())
	defer c.Close()

	const one = "GET /plain HTTP/1.1\r\nHost: h\r\n\r\n" // the first request is always left to net/http
	const two = "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 27\r\n\r\nGET /plains HTTP/1.1\r\nHost:"
	const three = "GET /plain/3 HTTP/1.1\r\nHost: h\r\n\r\n"
	const four = "DELETE /x HTTP/1.1\r\nHost: h\r\n\r\n"
	go io.WriteString(client, one+two+three+four)
	p := make([]byte, 64<<10)
	read := func(want string) {
		t.Helper()
		n, err := c.Read(p)
		if got := string(p[:n]); got != want || err != nil {
			t.Fatalf("read %q, %v; want %q", got, err, want)
		}
	}
	read(one)
	read(two[:1]) // net/http's read-ahead while the handler runs
	c.awaits()
	read(two[1:])
	c.awaits() // and no read-ahead happened
	answer := make(chan string)
	go func() {
		b := make([]byte, 4096)
		n, _ := client.Read(b)
		answer <- string(b[:n])
	}()
	done := make(chan struct{})
	go func() { read(four); close(done) }()
	if got := <-answer; !strings.HasSuffix(got, "\r\n\r\n/plain/3") {
		t.Errorf("the client got %q; want the response to the third request", got)
	}
	<-done
}
