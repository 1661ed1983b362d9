package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// receipts keeps the errors that an access log would have.
type receipts struct {
	http.ResponseWriter
	err *error
}

func (w receipts) SetReceipt(r weirhttp.Receipt) { *w.err = r.Err }

// Proxy-Status, the access log and the status say that an upstream speaks another
// protocol than its URL (H21).
func TestH21_ProxyStatusNamesTheWrongProtocol(t *testing.T) {
	ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "fine") })
	plain, secure := httptest.NewServer(ok), httptest.NewUnstartedServer(ok)
	secure.Config.ErrorLog = nil
	secure.StartTLS()
	defer plain.Close()
	defer secure.Close()
	// What others send to whom does not speak TLS.
	answering := func(answer string) string {
		o := rawServing(t, func(c net.Conn, br *bufio.Reader) {
			readHead(br)
			io.WriteString(c, answer)
			c.Close()
		})
		return o.config().Upstreams[0].Servers[0]
	}
	page := "<center>The plain HTTP request was sent to HTTPS port</center>"
	host := func(url string) string { _, h, _ := strings.Cut(url, "://"); return h }
	for _, c := range []struct{ name, server, want string }{
		{"TLS to Go without", "https://" + host(plain.URL), `weir; error=tls_protocol_error; details="TLS was spoken to a port without TLS"`},
		{"HTTP to Go with TLS", "http://" + host(secure.URL), `weir; error=http_protocol_error; details="HTTP without TLS was spoken to a port with TLS"`},
		{"HTTP to an alert", answering("\x15\x03\x01\x00\x02\x02\x46"), `weir; error=http_protocol_error; details="HTTP without TLS was spoken to a port with TLS"`},
		{"HTTP to nginx with TLS", answering("HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nConnection: close\r\nContent-Length: 62\r\n\r\n" + page),
			`weir; error=http_protocol_error; details="HTTP without TLS was spoken to a port with TLS"`},
		{"HTTP/2 to HTTP/1.1", "h2c://" + host(plain.URL), `weir; error=http_protocol_error; details="HTTP/2 was spoken to a port of HTTP/1.1"`},
		{"a 400 of its own", answering("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlong"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, method := range []string{"GET", "POST"} {
				g, err := gateway.New(config(gateway.Upstream{Name: "main", Servers: []string{c.server}}))
				if err != nil {
					t.Fatal(err)
				}
				defer g.Close(t.Context())
				w, r := httptest.NewRecorder(), httptest.NewRequest(method, "http://h.test/", strings.NewReader(""))
				var told error
				g.ServeHTTP(receipts{w, &told}, r)
				if c.want == "" {
					if w.Code != 400 || w.Body.String() != "long" {
						t.Errorf("%s = %d %q; want the origin's answer", method, w.Code, w.Body)
					}
					continue
				}
				if got := w.Header().Get("Proxy-Status"); w.Code != 502 || got != c.want {
					t.Errorf("%s = %d, Proxy-Status %s; want 502 and %s", method, w.Code, got, c.want)
				}
				if told == nil || !strings.Contains(told.Error(), "write the server with http") {
					t.Errorf("%s: the log says %v; want what to write", method, told)
				}
			}
		})
	}
}
