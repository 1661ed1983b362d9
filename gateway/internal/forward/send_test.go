package forward

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"testing"
)

// A direct writes the bytes that net/http writes, and fails when that does.
func FuzzSend(f *testing.F) {
	f.Add("GET", "/a", "b=c", false, "h:80", "X-A", "1", "agent")
	f.Add("HEAD", "/a", "", true, "h", "x_b", " 1\r\nX-C: 2 ", "")
	f.Add("POST", "/a", "", false, "h", "Bad name", "1", "a\nb")
	f.Add("GET", "//h/a", "", false, "[::1%eth0]:80", "Content-Length", "7", "x")
	f.Add("GET", "/\x01", "\x7f", false, "ü", "Trailer:X", "7", "x")
	f.Add("GET", "", "", false, "", "Host", "other", "x")
	f.Fuzz(func(t *testing.T, method, path, query string, forced bool, host, name, value, agent string) {
		request := func() *http.Request {
			return &http.Request{
				Method: method, Host: host, URL: &url.URL{Scheme: "http", Host: "server", Opaque: path, RawQuery: query, ForceQuery: forced},
				Header: http.Header{"User-Agent": {agent}, "Via": {"1.1 weir"}, name: {value, "more"}, "Accept": {"*/*"}},
			}
		}
		var got, want bytes.Buffer
		w := bufio.NewWriter(&want)
		wantErr := request().Write(w)
		_ = w.Flush()
		c := &directConn{bw: bufio.NewWriter(&got)}
		err := c.send(request())
		_ = c.bw.Flush()
		if (err == nil) != (wantErr == nil) || got.String() != want.String() {
			t.Errorf("wrote %q, %v; want %q, %v", got.String(), err, want.String(), wantErr)
		}
	})
}
