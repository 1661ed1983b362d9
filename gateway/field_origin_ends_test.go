package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// A dying origin sends an HTTP/1.1 head and some bytes, and ends the connection, by FIN or RST.
func dying(t *testing.T, response string, reset bool) gateway.Config {
	t.Helper()
	return rawServing(t, func(c net.Conn, br *bufio.Reader) {
		if readHead(br) == "" {
			return
		}
		io.WriteString(c, response)
		if reset {
			c.(*net.TCPConn).SetLinger(0)
		}
	}).config()
}

// serves2 starts an origin for HTTP/2 without TLS.
func serves2(t *testing.T, serve func(w http.ResponseWriter, r *http.Request, conn net.Conn)) gateway.Config {
	t.Helper()
	type connKey struct{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, r.Context().Value(connKey{}).(net.Conn))
	}))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	server.Start()
	t.Cleanup(server.Close)
	return config(gateway.Upstream{Name: "main", Servers: []string{"h2c" + strings.TrimPrefix(server.URL, "http")}})
}

// ask sends a request over a new connection, and returns the status and whether the client can
// take the response for complete. A response that is cut off must not look so.
func ask(t *testing.T, s *site, method, version string, fields string) (status int, body string, complete bool) {
	t.Helper()
	conn := s.rawDial()
	defer conn.Close()
	fmt.Fprintf(conn, "%s /x HTTP/%s\r\nHost: h.test\r\nConnection: close\r\n%s\r\n", method, version, fields)
	r, _ := http.NewRequest(method, "/x", nil)
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil {
		return 0, "", false
	}
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err == nil
}

// H5: an origin that dies after its head leaves no response that looks complete. If no byte of a
// body has arrived, and the length is small or not known, clients get 502.
func TestH5_OriginThatDiesAfterItsHead(t *testing.T) {
	for name, row := range map[string]struct {
		head   string
		failed bool // it may be a 502
	}{
		"a length":           {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", true},
		"a length, bytes":    {"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome", true},
		"a great length":     {"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", false},
		"chunked":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true},
		"chunked, bytes":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n", true},
		"chunked, no end":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n0\r\n", false},
		"storable":           {"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 100\r\n\r\nsome", true},
		"an error, a length": {"HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\nsome", true},
	} {
		for _, reset := range []bool{false, true} {
			for _, method := range []string{"GET", "POST"} {
				for _, version := range []string{"1.1", "1.0"} {
					s := open(t, dying(t, row.head, reset))
					until502(t, s, fmt.Sprintf("%s, reset %v", name, reset), method, version, row.failed)
				}
			}
		}
	}
}

// H5 over HTTP/2 to the origin.
func TestH5_OriginThatDiesAfterItsHeadOverHTTP2(t *testing.T) {
	for name, row := range map[string]struct {
		length string
		body   string
		end    func(net.Conn)
		failed bool // it may be a 502
	}{
		"a length, the stream":     {"100", "", func(net.Conn) { panic(http.ErrAbortHandler) }, true},
		"a length, the connection": {"100", "", func(c net.Conn) { c.Close() }, true},
		"no length, the stream":    {"", "", func(net.Conn) { panic(http.ErrAbortHandler) }, true},
		"bytes, the stream":        {"", "some", func(net.Conn) { panic(http.ErrAbortHandler) }, true},
		"bytes, the connection":    {"100", "some", func(c net.Conn) { c.Close() }, true},
		"a great length":           {"100000", "some", func(net.Conn) { panic(http.ErrAbortHandler) }, false},
	} {
		for _, method := range []string{"GET", "POST"} {
			s := open(t, serves2(t, func(w http.ResponseWriter, r *http.Request, c net.Conn) {
				if row.length != "" {
					w.Header().Set("Content-Length", row.length)
				}
				io.WriteString(w, row.body)
				http.NewResponseController(w).Flush()
				row.end(c)
			}))
			until502(t, s, name, method, "1.1", row.failed)
		}
	}
}

// until502 asks until there is a 502, if failed, and otherwise three times. No response may look
// complete otherwise. Some are broken off: if this machine is slow, the end of the origin is seen
// only after the head has been sent.
func until502(t *testing.T, s *site, name, method, version string, failed bool) {
	t.Helper()
	fields := ""
	if method == "POST" {
		fields = "Content-Length: 0\r\n"
	}
	for try := 0; ; try++ {
		status, body, complete := ask(t, s, method, version, fields)
		switch {
		case complete && status == http.StatusBadGateway && (failed || try == 2):
			return
		case complete && status != http.StatusBadGateway:
			t.Errorf("%s, %s, HTTP/%s: a complete %d %q", name, method, version, status, body)
			return
		case !failed && try == 2:
			return
		case try == 200:
			t.Errorf("%s, %s, HTTP/%s: no 502 in %d tries", name, method, version, try)
			return
		}
	}
}

// H10: all 1xx responses of a call reach the client that caused it, in their order, also if
// they come together.
func TestH10_ManyEarlyHintsAtOnce(t *testing.T) {
	const n = 20
	for name, c := range map[string]gateway.Config{
		"HTTP/1.1": dying(t, strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", n)+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false),
		"h2c": serves2(t, func(w http.ResponseWriter, r *http.Request, _ net.Conn) {
			w.Header().Set("Link", "</x>")
			for range n {
				w.WriteHeader(http.StatusEarlyHints)
			}
			io.WriteString(w, "ok")
		}),
	} {
		for _, method := range []string{"GET", "POST"} {
			s := open(t, c)
			conn := s.rawDial()
			fields := ""
			if method == "POST" {
				fields = "Content-Length: 0\r\n"
			}
			fmt.Fprintf(conn, "%s /x HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n%s\r\n", method, fields)
			b, err := io.ReadAll(conn)
			if got := bytes.Count(b, []byte("HTTP/1.1 103")); got != n || err != nil || !bytes.Contains(b, []byte("HTTP/1.1 200")) {
				t.Errorf("%s, %s: %d times 103, %v; want %d, and the response: %.300q", name, method, got, err, n, b)
			}
		}
	}
}

// H24: an origin that never ends its 1xx responses is cut off.
func TestH24_EndlessInterimResponses(t *testing.T) {
	for _, code := range []int{102, 103} {
		for name, c := range map[string]gateway.Config{
			"HTTP/1.1": rawServing(t, func(c net.Conn, br *bufio.Reader) {
				readHead(br)
				for {
					if _, err := fmt.Fprintf(c, "HTTP/1.1 %d Interim\r\nLink: </x>\r\n\r\n", code); err != nil {
						return
					}
				}
			}).config(),
			"h2c": serves2(t, func(w http.ResponseWriter, r *http.Request, _ net.Conn) {
				w.Header().Set("Link", "</x>")
				for r.Context().Err() == nil {
					w.WriteHeader(code)
				}
			}),
		} {
			for _, method := range []string{"GET", "POST"} {
				s := open(t, c)
				conn := s.rawDial()
				fields := ""
				if method == "POST" {
					fields = "Content-Length: 0\r\n"
				}
				fmt.Fprintf(conn, "%s /x HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n%s\r\n", method, fields)
				b, err := io.ReadAll(conn)
				interim := bytes.Count(b, fmt.Appendf(nil, "HTTP/1.1 %d", code))
				if err != nil || interim > 1000 || !bytes.Contains(b, []byte("HTTP/1.1 502")) || !bytes.Contains(b, []byte("error=http_protocol_error")) {
					t.Errorf("%s, %s, %d: %d interim responses, %v; want at most 1000 and 502: …%q", name, method, code, interim, err, b[max(0, len(b)-300):])
				}
			}
		}
	}
}

// H17: the length of 0 that an origin states in a 304 is not that of the response (RFC 9110,
// section 8.6), and is not relayed; another one is.
func TestH17_LengthOfA304(t *testing.T) {
	for _, length := range []string{"0", "100"} {
		for name, c := range map[string]gateway.Config{
			"HTTP/1.1": dying(t, "HTTP/1.1 304 Not Modified\r\nEtag: \"a\"\r\nContent-Length: "+length+"\r\n\r\n", false),
			"h2c": serves2(t, func(w http.ResponseWriter, r *http.Request, _ net.Conn) {
				w.Header().Set("Etag", `"a"`)
				w.Header().Set("Content-Length", length)
				w.WriteHeader(http.StatusNotModified)
			}),
		} {
			s := open(t, c)
			conn := s.rawDial()
			fmt.Fprint(conn, "GET /x HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\nIf-None-Match: \"a\"\r\n\r\n")
			b, err := io.ReadAll(conn)
			has := bytes.Contains(b, []byte("Content-Length: "+length+"\r\n"))
			if err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 304")) || length == "0" && has {
				t.Errorf("%s, length %s: %q, %v", name, length, b, err)
			}
		}
	}
}
