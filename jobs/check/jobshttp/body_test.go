package jobshttp_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/jobs/jobshttp"
)

// A body declared as too large is rejected at once: the server neither sends 100
// Continue nor waits for the body.
func TestH23_ALargeBodyIsNotAskedFor(t *testing.T) {
	x := newSite(t, setup{idle: true, route: jobshttp.RouteOptions{MaxBody: 1000}})
	for _, field := range []string{"Expect: 100-continue", "X-Other: 1"} {
		c, err := net.Dial("tcp", strings.TrimPrefix(x.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(c, "POST /quick HTTP/1.1\r\nHost: a\r\nPrefer: respond-async\r\nContent-Length: 10737418240\r\n%s\r\n\r\n", field)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("with %s: %v", field, err)
		}
		if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
			t.Errorf("with %s: status %d, close %v; want 413, and the connection closed", field, resp.StatusCode, resp.Close)
		}
	}
}
