package gateway_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
)

// wanting is an upstream of two servers that read each request whole.
func wanting(t *testing.T) gateway.Config {
	read := func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%q", r.Trailer)
	}
	u := upstreamOf(serving(t, "a", read), serving(t, "b", read))
	u.Retry = gateway.Retry{Attempts: 3, Methods: []string{"GET", "POST", "PUT", "DELETE"}}
	return config(u)
}

// blameless waits until nothing runs, and fails the test if something was
// counted against a server.
func (s *site) blameless(what string) {
	s.t.Helper()
	s.until("all calls have ended", func() bool {
		n := 0
		for _, server := range s.g.Stats().Upstreams["main"].Servers {
			n += server.InFlight
		}
		return n == 0
	})
	u := s.g.Stats().Upstreams["main"]
	for _, server := range u.Servers {
		if server.Failures > 0 || server.Ejected {
			s.t.Errorf("%s: %d failures of %s, ejected %t; want none", what, server.Failures, server.URL, server.Ejected)
		}
	}
	if u.Retries > 0 {
		s.t.Errorf("%s: %d retries; want none", what, u.Retries)
	}
}

// H24, H16: whatever a client sends, or leaves out, is not a server's fault.
func TestH24_ClientsEjectNoServer(t *testing.T) {
	chunked := "POST /a HTTP/1.1\r\nHost: h.test\r\nTransfer-Encoding: chunked\r\n"
	for name, text := range map[string]string{
		"chunk size":            chunked + "\r\nx\r\n",
		"chunk size later":      chunked + "\r\n1\r\na\r\nx\r\n",
		"chunk without its end": chunked + "\r\n1\r\nab\r\n",
		"trailer":               chunked + "\r\n1\r\na\r\n0\r\nX Y: z\r\n\r\n",
		"trailer without name":  chunked + "\r\n1\r\na\r\n0\r\n: z\r\n\r\n",
		"trailer's value":       chunked + "\r\n1\r\na\r\n0\r\nX: \x01\r\n\r\n",
		"announced":             chunked + "Trailer: a b\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"announced well":        chunked + "Trailer: X\r\n\r\n1\r\na\r\n0\r\nX Y: z\r\n\r\n",
		"announced, no body":    "GET /a HTTP/1.1\r\nHost: h.test\r\nTrailer: a b\r\n\r\n",
		"short body":            "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 100000\r\n\r\nabc",
		"no body":               "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 100000\r\n\r\n",
		"half a chunk":          chunked + "\r\n100\r\nabc",
		"expects, no body":      "POST /a HTTP/1.1\r\nHost: h.test\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
		"leaves":                "GET /a HTTP/1.1\r\nHost: h.test\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, wanting(t))
			for range 12 {
				c := s.rawDial()
				io.WriteString(c, text)
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c)
				c.Close()
			}
			s.blameless(name)
			s.want("/good", 200, "map[]")
		})
		t.Run(name+" and reset", func(t *testing.T) {
			s := open(t, wanting(t))
			for range 12 {
				c := s.rawDial()
				io.WriteString(c, text)
				s.turn()
				c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
			s.blameless(name)
		})
	}
}

// A request of HTTP/2 is its fields, name and value, and the data that follows.
// It ends with the data, unless the client resets it.
type stream struct {
	name   string
	fields []string
	data   string
	reset  bool
	status string
}

// H18, H24: pseudo-header fields are checked before a server is troubled, and
// streams that break are no server's fault.
func TestH18_PseudoHeaderFields(t *testing.T) {
	get := func(method, authority, path string, more ...string) []string {
		return append([]string{":method", method, ":scheme", "https", ":authority", authority, ":path", path}, more...)
	}
	for _, st := range []stream{
		{name: "plain", fields: get("GET", "h.test", "/x"), status: "200"},
		{name: "with a port", fields: get("GET", "[::1]:8443", "/x"), status: "200"},
		{name: "Host as well", fields: get("GET", "h.test", "/x", "host", "h.test"), status: "200"},
		{name: "method", fields: get("GET /x", "h.test", "/x"), status: "400"},
		{name: "method with CRLF", fields: get("GET / HTTP/1.1\r\nX: y", "h.test", "/x"), status: "400"},
		{name: "path in the authority", fields: get("GET", "h.test/x", "/x"), status: "400"},
		{name: "query in the authority", fields: get("GET", "h.test?x", "/x"), status: "400"},
		{name: "fragment in the authority", fields: get("GET", "h.test#x", "/x"), status: "400"},
		{name: "user in the authority", fields: get("GET", "me@h.test", "/x"), status: "400"},
		{name: "blank in the authority", fields: get("GET", "h.test x", "/x"), status: "400"},
		{name: "port that is none", fields: get("GET", "h.test:80a", "/x"), status: "400"},
		{name: "only a port", fields: get("GET", ":80", "/x"), status: "400"},
		{name: "two hosts", fields: get("GET", "h.test", "/x", "host", "other.test"), status: "400"},
		{name: "no slash", fields: get("GET", "h.test", "x"), status: "400"},
		{name: "absolute form", fields: get("GET", "h.test", "http://other.test/x"), status: "400"},
		{name: "trailer", fields: get("POST", "h.test", "/x", "trailer", "a b"), data: "abc", status: "400"},
		{name: "short body", fields: get("POST", "h.test", "/x", "content-length", "100000"), data: "abc"},
		{name: "reset", fields: get("POST", "h.test", "/x"), data: "abc", reset: true},
	} {
		t.Run(st.name, func(t *testing.T) {
			s := openHTTP2(t, wanting(t))
			for range 12 {
				status := s.stream(st)
				// net/http resets what it does not like itself.
				if st.status != "" && status != st.status && (st.status == "200" || status != "reset") {
					t.Fatalf("answered %s; want %s", status, st.status)
				}
			}
			s.blameless(st.name)
		})
	}
}

// stream sends one request on a connection of its own, and returns the status,
// or "reset".
func (s *site) stream(st stream) string {
	s.t.Helper()
	c, err := tls.Dial("tcp", strings.TrimPrefix(s.url, "https://"), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	frame := func(kind, flags byte, payload string) string {
		n := len(payload)
		id := byte(1)
		if kind == 4 {
			id = 0
		}
		return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, 0, 0, 0, id}) + payload
	}
	var block strings.Builder // literals that are not indexed (RFC 7541, section 6.2.2)
	for i := 0; i < len(st.fields); i += 2 {
		block.WriteByte(0)
		for _, text := range st.fields[i : i+2] {
			block.WriteByte(byte(len(text)))
			block.WriteString(text)
		}
	}
	flags := byte(4)
	if st.data == "" {
		flags |= 1
	}
	text := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, "") + frame(1, flags, block.String())
	if st.data != "" {
		end := byte(1)
		if st.reset {
			end = 0
		}
		text += frame(0, end, st.data)
	}
	io.WriteString(c, text)
	if st.reset {
		s.until("the call runs", func() bool { return s.g.Stats().Upstreams["main"].Limit.InUse > 0 })
		io.WriteString(c, frame(3, 0, "\x00\x00\x00\x08"))
		return "reset"
	}
	br := bufio.NewReader(c)
	for {
		var head [9]byte
		if _, err := io.ReadFull(br, head[:]); err != nil {
			return "reset"
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		io.ReadFull(br, payload)
		switch head[3] {
		case 1:
			return indexedStatus(payload)
		case 3, 7:
			return "reset"
		}
	}
}

// indexedStatus returns the status of an answer's fields: of the static table,
// or a literal, as net/http writes them.
func indexedStatus(block []byte) string {
	for len(block) > 0 && block[0]&0xe0 == 0x20 {
		block = block[1:] // the size of the table
	}
	if i := block[0]; i >= 0x88 && i <= 0x8e {
		return []string{"200", "204", "206", "304", "400", "404", "500"}[i-0x88]
	}
	return fmt.Sprintf("%x", block)
}

// H16: a server's own faults count still: each of these ejects it.
func TestH16_ServersAnswerForThemselves(t *testing.T) {
	certificate := httptest.NewTLSServer(nil)
	certificate.Close()
	for name, answer := range map[string]string{
		"hangs up":      "",
		"no answer":     "what?\r\n\r\n",
		"half a head":   "HTTP/1.1 200 OK\r\nContent-",
		"blank":         "HTTP/1.1 200 OK\r\nCache-Control : private\r\nContent-Length: 0\r\n\r\n",
		"both":          "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"a long header": "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n",
	} {
		for _, scheme := range []string{"http://", "https://"} {
			for _, method := range []string{"GET", "POST"} {
				t.Run(name+" "+scheme+method, func(t *testing.T) {
					o := rawServing(t, func(c net.Conn, br *bufio.Reader) {
						if scheme == "https://" {
							c = tls.Server(c, &tls.Config{Certificates: certificate.TLS.Certificates})
							br = bufio.NewReader(c)
							defer c.Close()
						}
						if readHead(br) != "" {
							io.WriteString(c, answer)
						}
					})
					u := gateway.Upstream{Name: "main", Servers: []string{scheme + o.addr}, TLS: &tls.Config{InsecureSkipVerify: true}}
					s := open(t, config(u))
					for range 6 {
						var body io.Reader
						if method == "POST" {
							body = strings.NewReader("abc")
						}
						if got := s.do(s.request(method, "/x", body)); got.status != 502 {
							t.Errorf("answered %d, %v; want 502", got.status, got.err)
						}
					}
					if server := s.g.Stats().Upstreams["main"].Servers[0]; !server.Ejected || server.Failures < 5 {
						t.Errorf("%+v; want it ejected", server)
					}
				})
			}
		}
	}
}
