package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// H27: a request that turns out to be faulty while it is forwarded is refused through the
// ErrorHandler, like all that the Gateway refuses.
func TestH27_FaultsOfABodyGoThroughTheErrorHandler(t *testing.T) {
	const head = "POST /x HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n"
	for name, row := range map[string]struct {
		request string
		set     func(*gateway.Route)
		status  int
	}{
		"longer than MaxBody": {
			request: head + "\r\n5\r\n12345\r\n5\r\n67890\r\n5\r\nabcde\r\n0\r\n\r\n",
			set:     func(r *gateway.Route) { r.MaxBody = 8 }, status: http.StatusRequestEntityTooLarge,
		},
		"broken chunks":         {request: head + "\r\n5\r\n12345\r\nzzz\r\n", status: http.StatusBadRequest},
		"an unsendable trailer": {request: head + "Trailer: X-A\r\n\r\n1\r\na\r\n0\r\nX-A: a\x01b\r\n\r\n", status: http.StatusBadRequest},
		"nothing more comes": {
			request: head + "\r\n5\r\n12345\r\n",
			set:     func(r *gateway.Route) { r.IdleTimeout = 100 * time.Millisecond }, status: http.StatusRequestTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, scheme := range []string{"http", "h2c"} {
				t.Run(scheme, func(t *testing.T) {
					server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
					server.Config.Protocols = new(http.Protocols)
					server.Config.Protocols.SetHTTP1(true)
					server.Config.Protocols.SetUnencryptedHTTP2(true)
					server.Start()
					defer server.Close()
					c := config(gateway.Upstream{Name: "main", Servers: []string{scheme + strings.TrimPrefix(server.URL, "http")}})
					if row.set != nil {
						row.set(&c.Routes[0])
					}
					c.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, e weirhttp.ErrorResponse) {
						w.WriteHeader(e.Status)
						fmt.Fprintf(w, "custom %d", e.Status)
					}
					s := open(t, c)
					conn := s.rawDial()
					defer conn.Close()
					conn.SetDeadline(time.Now().Add(10 * time.Second))
					if _, err := io.WriteString(conn, row.request); err != nil {
						t.Fatal(err)
					}
					resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
					if err != nil {
						t.Fatal(err)
					}
					body, _ := io.ReadAll(resp.Body)
					if want := fmt.Sprintf("custom %d", row.status); resp.StatusCode != row.status || string(body) != want {
						t.Errorf("%d %q; want %q", resp.StatusCode, body, want)
					}
					if got := resp.Header.Get("Cache-Control"); got != "no-store" || !resp.Close {
						t.Errorf("Cache-Control %q, the connection is kept: %v; want no-store, and its end", got, !resp.Close)
					}
					if p := resp.Header.Get("Proxy-Status"); !strings.HasSuffix(p, "error=http_request_error") {
						t.Errorf("Proxy-Status = %q", p)
					}
				})
			}
		})
	}
}

// H27: no code path chooses a status, except those in this table; all
// others go through an ErrorResponse, and so through the ErrorHandler.
func TestH27_EveryStatusOfTheGatewayGoesThroughTheErrorHandler(t *testing.T) {
	chosen := regexp.MustCompile(`http\.Error\(|weirhttp\.(Client)?Error\(|\.WriteHeader\((code|statusLeft|http\.Status\w+)\)|(^|[^.\w])refuse\((x\.)?w, `)
	allowed := map[string]int{
		"internal/forward/failure.go":        2, // without a Handler in front: Fail and refuse
		"internal/forward/forward.go":        1, // a 1xx of the server
		"internal/forward/reject.go":         2, // without a Gateway in front
		"../weirhttp/call.go":                1, // 499, which no client reads
		"../weirhttp/idempotency_run.go":     1, // 200, if a handler does not say
		"../weirhttp/observe.go":             3, // 200, if a handler does not say
		"../weirhttp/pass.go":                3, // 200, if a handler does not say
		"../weirhttp/sink.go":                3, // 200, if a handler does not say
		"../weirhttp/transport.go":           2, // 200, if a handler does not say
		"../weirhttp/parts.go":               1, // 206
		"../weirhttp/serve.go":               1, // 304
		"../weirhttp/errors.go":              0, // the table
		"../app/proxy/jobs.go":               1, // the attempt of a job, which no client receives
		"../app/proxy/listen/fast_writer.go": 3, // 200, if a handler does not say
		"../app/proxy/listen/server.go":      1, // the preface of HTTP/2, which is no request
	}
	found := map[string]int{}
	for _, dir := range []string{".", "internal", "../weirhttp", "../app/proxy"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			path = filepath.ToSlash(path)
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/admin/") {
				return err
			}
			if dir == "." && strings.HasPrefix(path, "internal/") {
				return nil
			}
			text, err := os.ReadFile(path)
			for line := range strings.Lines(string(text)) {
				if code, _, _ := strings.Cut(line, "//"); chosen.MatchString(code) && !strings.HasPrefix(code, "func ") {
					found[path]++
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, n := range found {
		if n != allowed[path] {
			t.Errorf("%s: %d responses with a status that it chooses; want %d. Use weirhttp.ErrorResponse.WriteWith, or Sink.Fail", path, n, allowed[path])
		}
	}
}
