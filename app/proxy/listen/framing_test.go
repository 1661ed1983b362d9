package listen_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/app/proxy/listen"
)

func certified(t *testing.T) listen.KeyPair {
	t.Helper()
	files := newFiles(t)
	pair(t, files, 1, time.Now().Add(time.Hour))
	return files
}

// echo answers with a description of the request.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/take" {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		io.Copy(c, rw)
		if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
			panic("a connection that cannot be closed in one direction")
		}
		return
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "a broken body", 400)
		return
	}
	fmt.Fprintf(w, "%s %s %t %s", r.Method, r.URL.Path, r.TLS != nil, b)
})

// overTLS runs f against a server without TLS and a server with TLS, over HTTP/1.1.
func overTLS(t *testing.T, f func(t *testing.T, dial func() net.Conn, secure bool)) {
	t.Run("plain", func(t *testing.T) {
		s := serve(t, listen.Config{H2C: true}, listen.Options{Handler: echo})
		f(t, func() net.Conn { return dial(t, s) }, false)
	})
	t.Run("TLS", func(t *testing.T) {
		s := serve(t, listen.Config{TLS: certified(t)}, listen.Options{Handler: echo})
		f(t, func() net.Conn {
			t.Helper()
			c := tls.Client(dial(t, s), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			return c
		}, true)
	})
}

// answersOf reads responses until the connection ends or no more bytes come.
func answersOf(t *testing.T, c net.Conn) (all []string, open bool) {
	t.Helper()
	br := bufio.NewReader(c)
	for {
		if _, err := br.Peek(1); err != nil {
			n, ok := err.(net.Error)
			return all, ok && n.Timeout()
		}
		r, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatalf("a malformed response: %v", err)
		}
		b, _ := io.ReadAll(r.Body)
		all = append(all, fmt.Sprint(r.StatusCode, " ", string(b)))
	}
}

const (
	bye  = "GET /bye HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	post = "POST /a HTTP/1.1\r\nHost: h\r\n"
)

// H18: a request whose framing is ambiguous or invalid is refused, even if net/http
// would accept it, and the connection ends.
func TestH18_UnclearFramingIsRefused(t *testing.T) {
	refused := map[string]string{
		"both":                    post + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"both the other way":      post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
		"coding in HTTP/1.0":      "POST /a HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"coding and length, 1.0":  "POST /a HTTP/1.0\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunked twice":           post + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
		"xchunked":                post + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"identity":                post + "Transfer-Encoding: identity\r\n\r\n",
		"two lengths":             post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"a list":                  post + "Content-Length: 1, 1\r\n\r\na",
		"fold":                    "GET /a HTTP/1.1\r\nHost: h\r\nX: y\r\n z\r\n\r\n",
		"folded coding":           post + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
		"LF":                      "GET /a HTTP/1.1\nHost: h\n\n",
		"LF in a field":           "GET /a HTTP/1.1\r\nHost: h\r\nX: y\nZ: w\r\n\r\n",
		"CR":                      "GET /a HTTP/1.1\r\nHost: h\r\nX: y\rZ\r\n\r\n",
		"null":                    "GET /a HTTP/1.1\r\nHost: h\r\nX: \x00\r\n\r\n",
		"blank before the colon":  "GET /a HTTP/1.1\r\nHost : h\r\n\r\n",
		"many empty lines":        strings.Repeat("\r\n", 100) + "GET /a HTTP/1.1\r\nHost: h\r\n\r\n",
		"nothing but null":        "\x00\x00\x00\x00\x00\x00\x00\x00",
		"chunk size":              post + "Transfer-Encoding: chunked\r\n\r\nx\r\n\r\n",
		"chunk size that is long": post + "Transfer-Encoding: chunked\r\n\r\n100000000000000005\r\nabcde\r\n0\r\n\r\n",
		"LF after a chunk size":   post + "Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n",
		"blank after chunk size":  post + "Transfer-Encoding: chunked\r\n\r\n1 \r\na\r\n0\r\n\r\n",
		"LF in an extension":      post + "Transfer-Encoding: chunked\r\n\r\n1;a\nX: y\r\na\r\n0\r\n\r\n",
		"long extension":          post + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 3000) + "\r\na\r\n0\r\n\r\n",
		"trailer":                 post + "Transfer-Encoding: chunked\r\n\r\n0\r\nX Y: z\r\n\r\n",
	}
	overTLS(t, func(t *testing.T, dial func() net.Conn, _ bool) {
		for name, text := range refused {
			for _, before := range []string{"", "GET /first HTTP/1.1\r\nHost: h\r\n\r\n"} {
				c := dial()
				io.WriteString(c, before+text+bye)
				got, open := answersOf(t, c)
				if open {
					t.Errorf("%s: the connection stays open", name)
				}
				if before != "" {
					if len(got) == 0 || !strings.HasPrefix(got[0], "200 GET /first") {
						t.Errorf("%s: got %q; want a response to the previous request", name, got)
						continue
					}
					got = got[1:]
				}
				if len(got) != 1 || !strings.HasPrefix(got[0], "400 ") && !strings.HasPrefix(got[0], "501 ") {
					t.Errorf("%s (first %t): got %q; want one refusal", name, before == "", got)
				}
			}
		}
	})
}

// H18: unambiguous requests are answered in order, however their bytes are split.
func TestH18_ClearFramingIsAnswered(t *testing.T) {
	text := "\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n" +
		"\r\n" + post + "Content-Length: 3\r\n\r\nabc\r\n" +
		post + "Transfer-Encoding: chunked\r\n\r\n2;x=\"y\"\r\nde\r\n0\r\nX: y\r\n\r\n" +
		post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nf" +
		bye
	overTLS(t, func(t *testing.T, dial func() net.Conn, secure bool) {
		var want []string
		for _, w := range []string{"GET /a %t ", "POST /a %t abc", "POST /a %t de", "POST /a %t f", "GET /bye %t "} {
			want = append(want, "200 "+fmt.Sprintf(w, secure))
		}
		for _, piece := range []int{1, 3, 50, len(text)} {
			c := dial()
			for p := range slices.Chunk([]byte(text), piece) {
				c.Write(p)
			}
			if got, open := answersOf(t, c); !slices.Equal(got, want) || open {
				t.Errorf("in pieces of %d: %q, open %t; want %q", piece, got, open, want)
			}
		}
	})
}

// An empty line after a request does not end it, and a fault in the next request does
// not affect it: net/http reads ahead for the client's end while a handler runs.
func TestH18_FaultBehindARequestLeavesItAlone(t *testing.T) {
	for _, behind := range []string{"\r\n", "\r", "\x00", "\x16\x03\x01", "GET /b HTTP/1.1\r\nX : y\r\n\r\n"} {
		var started, let chan bool // belong to the bubble
		h := func(w http.ResponseWriter, r *http.Request) {
			started <- true
			<-let
			fmt.Fprint(w, r.Context().Err())
		}
		slow(t, h, func(t *testing.T, c net.Conn) {
			started, let = make(chan bool, 1), make(chan bool, 1)
			send(t, c, "GET /a HTTP/1.1\r\nHost: h\r\n\r\n")
			<-started
			go io.WriteString(c, behind)
			synctest.Wait() // the server has read as much of it as it wants
			let <- true
			r, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Errorf("%q behind a request: %v; want a response", behind, err)
				return
			}
			if b, _ := io.ReadAll(r.Body); string(b) != "<nil>" {
				t.Errorf("%q behind a request: it was canceled: %s", behind, b)
			}
			c.Close()
		})
	}
}

// The bytes after a 101 are not HTTP, and pass unchanged, in both directions and to the
// end of each.
func TestH18_UpgradedBytesPassUntouched(t *testing.T) {
	overTLS(t, func(t *testing.T, dial func() net.Conn, _ bool) {
		c := dial()
		io.WriteString(c, "GET /take HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		br := bufio.NewReader(c)
		if r, err := http.ReadResponse(br, nil); err != nil || r.StatusCode != 101 {
			t.Fatalf("answered %v, %v; want 101", r, err)
		}
		const text = "\x00\x01\r\n\r\n\n GET / HTTP/1.1\r\nX : y\r\n\r\n\xff"
		io.WriteString(c, text)
		c.(interface{ CloseWrite() error }).CloseWrite()
		if b, err := io.ReadAll(br); string(b) != text || err != nil {
			t.Errorf("back came %q, %v; want %q", b, err, text)
		}
	})
}

// A handler that upgrades sees the bytes that arrived before the 101, and refuses.
func TestH18_BytesBeforeAnUpgradeAreSeen(t *testing.T) {
	buffered := make(chan int, 1)
	s := serve(t, listen.Config{}, listen.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		buffered <- rw.Reader.Buffered()
	})})
	for _, early := range []string{"\x81\x00", "GET / HTTP/1.1\r\n"} {
		c := dial(t, s)
		io.WriteString(c, "GET /take HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"+early)
		if n := <-buffered; n == 0 {
			t.Errorf("%q before the 101 is not visible to the handler", early)
		}
	}
}

func TestH18_ContinueIsAskedForStill(t *testing.T) {
	overTLS(t, func(t *testing.T, dial func() net.Conn, _ bool) {
		c := dial()
		br := bufio.NewReader(c)
		for range 2 {
			io.WriteString(c, post+"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
			if line, err := br.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
				t.Fatalf("asked with %q, %v; want 100", line, err)
			}
			br.ReadString('\n')
			io.WriteString(c, "abc")
			r, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := io.ReadAll(r.Body); !strings.HasSuffix(string(b), " abc") {
				t.Errorf("answered %q", b)
			}
		}
	})
}

// A client that does not finish its handshake delays no other client. HTTP/2 is
// negotiated as usual.
func TestH19_HandshakesDoNotWaitForEachOther(t *testing.T) {
	s := serve(t, listen.Config{TLS: certified(t)}, listen.Options{Handler: echo})
	for range 20 {
		dial(t, s) // and sends nothing
	}
	for _, proto := range []string{"h2", "http/1.1"} {
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{proto}}, ForceAttemptHTTP2: proto == "h2"}}
		r, err := client.Get("https://" + s.Address() + "/x")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		if string(b) != "GET /x true " || (r.ProtoMajor == 2) != (proto == "h2") {
			t.Errorf("%s: %s %q", proto, r.Proto, b)
		}
		client.CloseIdleConnections()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestH19_HandshakeHasATimeout(t *testing.T) {
	s := serve(t, listen.Config{TLS: certified(t), Limits: listen.Limits{ReadHeader: 50 * time.Millisecond}}, listen.Options{Handler: echo})
	c := dial(t, s)
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("ended with %v; want an end", err)
	}
}

func TestH19_PlainRequestToTLSIsAnswered(t *testing.T) {
	s := serve(t, listen.Config{TLS: certified(t)}, listen.Options{Handler: echo})
	c := dial(t, s)
	io.WriteString(c, bye)
	if b, _ := io.ReadAll(c); !strings.Contains(string(b), "400") || !strings.Contains(string(b), "HTTPS") {
		t.Errorf("got %q; want 400 and the reason", b)
	}
}

// H18: requests that Go's HTTP server rejects without a call of the handler are reported,
// with their status and their client; others are not.
func TestH18_RejectedRequestsAreReported(t *testing.T) {
	for text, want := range map[string]int{
		"GET / HTTP/1.1\r\n\r\n": 400, // no Host
		"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n":        400,
		"GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n":       431,
		"GET / HTTP/3.0\r\nHost: h\r\n\r\n":                                                  505,
		"GET / HTTP/1.1\r\nHost: h\r\nExpect: something\r\nConnection: close\r\n\r\n":        417,
		"GET /404 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n":                          0,
		"GET /404 HTTP/1.1\r\nHost: h\r\n\r\n" + "GET /404 HTTP/1.1\r\nHost: h\r\n\r\nx\r\n": 400,
	} {
		for _, fast := range []bool{false, true} {
			var mu sync.Mutex
			var got []string
			s := serve(t, listen.Config{FastPath: fast}, listen.Options{
				Handler: refusing,
				Rejected: func(client net.Addr, status int) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, fmt.Sprint(client, " ", status))
				},
			})
			c := dial(t, s)
			io.WriteString(c, text)
			c.(*net.TCPConn).CloseWrite()
			io.ReadAll(c)
			s.Close()
			mu.Lock()
			var all []string
			if want != 0 {
				all = []string{fmt.Sprint(c.LocalAddr(), " ", want)}
			}
			if !slices.Equal(got, all) {
				t.Errorf("fast path %v: %.60q was reported as %q; want %q", fast, text, got, all)
			}
			mu.Unlock()
		}
	}
}
