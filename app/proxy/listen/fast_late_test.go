package listen_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

// H31: a timer of a request that has ended does not set the deadlines of the next one of its
// connection, which may be of another user.
func TestH31_ALateDeadlineHasNoEffect(t *testing.T) {
	var late *http.ResponseController
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/first":
		case "/a":
			late = http.NewResponseController(w)
			if err := late.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Errorf("the deadline of a request that is being served: %v", err)
			}
		default:
			if late.SetWriteDeadline(time.Unix(1, 0)) == nil || late.SetReadDeadline(time.Unix(1, 0)) == nil {
				t.Error("a request that is over has set a deadline")
			}
		}
		_, _ = io.WriteString(w, r.URL.Path)
	})
	s, err := listen.Open(listen.Config{Address: "127.0.0.1:0", FastPath: true}, listen.Options{Handler: h}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Serve(func(err error) { t.Error(err) })
	c, err := net.Dial("tcp", s.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	b := bufio.NewReader(c)
	for _, path := range []string{"/first", "/a", "/b", "/c"} {
		_, _ = io.WriteString(c, get(path))
		resp, err := http.ReadResponse(b, nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || string(body) != path {
			t.Errorf("%s: %q, %v", path, body, err)
		}
	}
}
