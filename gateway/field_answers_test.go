package gateway_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// behind starts an origin of raw bytes, with TLS or without.
func behind(t *testing.T, secure bool, serve func(c net.Conn, br *bufio.Reader)) (*rawOrigin, gateway.Config) {
	t.Helper()
	scheme := "http://"
	own := serve
	if secure {
		scheme = "https://"
		server := httptest.NewTLSServer(nil)
		server.Close()
		own = func(c net.Conn, _ *bufio.Reader) {
			s := tls.Server(c, &tls.Config{Certificates: server.TLS.Certificates})
			defer s.Close()
			serve(s, bufio.NewReader(s))
		}
	}
	o := rawServing(t, own)
	c := config(gateway.Upstream{Name: "main", Servers: []string{scheme + o.addr}, TLS: &tls.Config{InsecureSkipVerify: true},
		Health: gateway.Health{Failures: -1}})
	return o, c
}

// H5: an answer whose framing or fields are not clear is no answer: nobody gets
// it, it is not stored, and its connection is not used again.
func TestH5_UnclearAnswersAreNone(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nCache-Control: public, max-age=60\r\n"
	for name, answer := range map[string]string{
		"both":                     ok + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"both the other way":       ok + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"beyond the length":        ok + "Content-Length: 2\r\n\r\nokmore",
		"an answer behind":         ok + "Content-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad",
		"beyond the last chunk":    ok + "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nmore",
		"blank before a colon":     ok + "Cache-Control : private\r\nContent-Length: 2\r\n\r\nok",
		"tab before a colon":       ok + "Set-Cookie\t: s\r\nContent-Length: 2\r\n\r\nok",
		"folded":                   ok + "X: y\r\n z\r\nContent-Length: 2\r\n\r\nok",
		"folded at first":          "HTTP/1.1 200 OK\r\n X: y\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\nok",
		"a name that is none":      ok + "X(y): z\r\nContent-Length: 2\r\n\r\nok",
		"no colon":                 ok + "Private\r\nContent-Length: 2\r\n\r\nok",
		"null in a value":          ok + "X: \x00\r\nContent-Length: 2\r\n\r\nok",
		"CR in a value":            ok + "X: y\rz\r\nContent-Length: 2\r\n\r\nok",
		"two lengths":              ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok",
		"a length twice":           ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok",
		"a list of lengths":        ok + "Content-Length: 2, 2\r\n\r\nok",
		"a coding in HTTP/1.0":     "HTTP/1.0 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"a coding that is none":    ok + "Transfer-Encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"chunked twice":            ok + "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"chunk size":               ok + "Transfer-Encoding: chunked\r\n\r\nx\r\nok\r\n0\r\n\r\n",
		"chunk ends elsewhere":     ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
		"LF in a chunk":            ok + "Transfer-Encoding: chunked\r\n\r\n2\nok\r\n0\r\n\r\n",
		"a trailer that is folded": ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n z\r\n\r\n",
		"status":                   "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
		"big, and beyond":          ok + "Content-Length: 20000\r\n\r\n" + strings.Repeat("x", 20000) + "more",
		"very big, and beyond":     ok + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000) + "more",
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " TLS=", secure), func(t *testing.T) {
				o, c := behind(t, secure, func(c net.Conn, br *bufio.Reader) {
					for readHead(br) != "" {
						io.WriteString(c, answer)
					}
				})
				s := open(t, c)
				for range 3 {
					got := s.get("/x")
					broken := strings.Contains(name, "big") && got.err != nil // its head was passed on
					if got.status != 502 && !broken {
						t.Errorf("answered %d %.60q, %v; want 502", got.status, got.body, got.err)
					}
				}
				if n := s.g.Cache().Stats().Responses; n != 0 {
					t.Errorf("%d answers are stored; want none", n)
				}
				if n := o.accepted.Load(); n != 3 {
					t.Errorf("%d connections; want 3: none of them is used again", n)
				}
			})
		}
	}
}

// A clear one is passed on, and its connection is kept: also with a head whose
// lines end with LF alone.
func TestH5_ClearAnswersKeepTheirConnection(t *testing.T) {
	for name, answer := range map[string]string{
		"length":   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"chunks":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nok\r\n0\r\nX: y\r\n\r\n",
		"LF":       "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
		"103":      "HTTP/1.1 103 Early\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"no phase": "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok",
		"big":      "HTTP/1.1 200 OK\r\nContent-Length: 200002\r\n\r\nok" + strings.Repeat("x", 200000),
	} {
		for _, secure := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " TLS=", secure), func(t *testing.T) {
				o, c := behind(t, secure, func(c net.Conn, br *bufio.Reader) {
					for readHead(br) != "" {
						io.WriteString(c, answer)
					}
				})
				s := open(t, c)
				for range 5 {
					s.want("/x", 200, "ok", "Cookie", "a=b")
				}
				// With TLS the first one found out that HTTP/2 is not spoken.
				if n := o.accepted.Load(); n != 1 && (n != 2 || !secure) {
					t.Errorf("%d connections; want 1", n)
				}
			})
		}
	}
}

// What an origin sends unasked reaches neither the next client nor a log of
// net/http's, whose bytes would be the origin's.
func TestH5_UnaskedAnswersAreNobodys(t *testing.T) {
	var logged lockedBuffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for _, secure := range []bool{false, true} {
		sent := make(chan bool)
		o, c := behind(t, secure, func(c net.Conn, br *bufio.Reader) {
			for readHead(br) != "" {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				<-sent // the first answer is at the client
				io.WriteString(c, "HTTP/1.1 200 OK\r\nX-Secret: poison\r\nContent-Length: 6\r\n\r\npoison")
				br.ReadByte() // until it is closed, or asked
			}
		})
		s := open(t, c)
		for range 3 {
			s.want("/x", 200, "ok", "Cookie", "a=b")
			sent <- true
			s.until("the connection is closed", func() bool { return o.open.Load() == 0 })
		}
	}
	if text := logged.String(); text != "" {
		t.Errorf("logged %q; want nothing", text)
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// H17, H18: fields that decide about a message do not come behind it, however
// they are announced; others do.
func TestH18_TrailersThatAreNone(t *testing.T) {
	var bad strings.Builder
	names := []string{"Content-Length", "Set-Cookie", "Host", "Authorization", "Transfer-Encoding", "Cache-Control", "Vary", "Content-Encoding", "X-Forwarded-For", "Cookie"}
	for _, name := range names {
		bad.WriteString(name + ": 5\r\n")
	}
	for _, announced := range []string{"", "Trailer: X-Sum, " + strings.Join([]string{"Set-Cookie", "Host", "Authorization"}, ", ") + "\r\n", "Trailer: X-Sum\r\n"} {
		overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
			_, c := behind(t, false, func(c net.Conn, br *bufio.Reader) {
				for readHead(br) != "" {
					io.WriteString(c, "HTTP/1.1 200 OK\r\n"+announced+"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"+bad.String()+"X-Sum: 1\r\n\r\n")
				}
			})
			s := open(c)
			resp, err := s.client.Get(s.url + "/x")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			if len(resp.Trailer) != 1 || resp.Trailer.Get("X-Sum") != "1" {
				t.Errorf("announced %q: trailers %q; want X-Sum alone", announced, resp.Trailer)
			}
		})
		o := strictServing(t)
		s := open(t, o.config())
		c := s.rawDial()
		io.WriteString(c, "POST /a HTTP/1.1\r\nHost: h.test\r\n"+announced+"Transfer-Encoding: chunked\r\n\r\n1\r\nZ\r\n0\r\n"+bad.String()+"X-Sum: 1\r\n\r\n"+tail)
		answers(t, c)
		seen, faults := o.take()
		if len(seen) != 2 || len(faults) > 0 || strings.Join(seen[0].trailer, "|") != map[bool]string{true: "X-Sum: 1"}[announced != ""] {
			t.Errorf("announced %q: the origin saw %q, %q; want the trailer X-Sum alone", announced, seen, faults)
		}
	}
}

// H6: a client that closes its sending side has left (decision 0097). If it reads on, it
// learns why there is no response; what needs no call it gets.
func TestH6_AClientThatClosesItsSendingSideHasLeft(t *testing.T) {
	began, canceled := make(chan struct{}, 4), make(chan struct{}, 4)
	s := open(t, config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stored" {
			w.Header().Set("Cache-Control", "max-age=60")
			_, _ = io.WriteString(w, "kept")
			return
		}
		began <- struct{}{}
		<-r.Context().Done()
		canceled <- struct{}{}
	}))))
	ask := func(method, path string) (int, string) {
		c := s.rawDial()
		defer c.Close()
		if _, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n\r\n", method, path, c.RemoteAddr()); err != nil {
			t.Fatal(err)
		}
		if path == "/call" {
			<-began // or it might not be called at all
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s %s: %v", method, path, err)
		}
		return resp.StatusCode, string(b)
	}
	s.want("/stored", 200, "kept")
	if status, body := ask("GET", "/stored"); status != 200 || body != "kept" {
		t.Errorf("a stored response: %d %q; want it whole", status, body)
	}
	for _, method := range []string{"GET", "POST"} {
		if status, body := ask(method, "/call"); status != 499 || !strings.Contains(body, "closed its side") {
			t.Errorf("%s: %d %q; want 499 with the reason", method, status, body)
		}
		<-canceled
	}
}
