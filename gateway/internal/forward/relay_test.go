package forward_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// Requests as they arrive at the origin, except for random values and weir's own
// fields.
func TestH17_TargetsArriveAsTheyCame(t *testing.T) {
	var seen recorder
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		for {
			h, err := readHead(br)
			if err != nil {
				return
			}
			seen.add(h[:strings.Index(h, "\r\n")])
			io.WriteString(c, ok)
		}
	})
	for _, tt := range []struct{ method, target, want string }{
		{"GET", "/", "/"},
		{"GET", "//a", "//a"},
		{"GET", "//a%2Fb//?x//y", "//a%2Fb//?x//y"},
		{"GET", "/a%2Fb/%2e%2E/../c", "/a%2Fb/%2e%2E/../c"},
		{"GET", "/?a=1;b=2&c=%zz", "/?a=1;b=2&c=%zz"},
		{"GET", "/a?", "/a?"},
		{"GET", "/a??", "/a??"},
		{"GET", "/a|b^c`\"{}", "/a|b^c`\"{}"},
		{"GET", "/\xc3\xa4;x=1:2@3", "/\xc3\xa4;x=1:2@3"},
		{"OPTIONS", "*", "*"},
		{"GET", "http://shop.test/a/b?c", "/a/b?c"},
		{"GET", "http://shop.test", "/"},
		{"GET", "HTTP://shop.test?x=1", "/?x=1"},
		{"GET", "http://shop.test//a%2F", "//a%2F"},
		{"OPTIONS", "http://shop.test", "*"},
		{"PURGE!", "/x", "/x"},
	} {
		c := r.client()
		c.send(tt.method + " " + tt.target + " HTTP/1.1\r\nHost: shop.test\r\n\r\n")
		if resp, _, _ := c.answer(tt.method); resp.StatusCode != 200 {
			t.Errorf("%s %s = %s; want 200", tt.method, tt.target, resp.Status)
			continue
		}
		want := tt.method + " " + tt.want + " HTTP/1.1"
		if got := seen.all(); got[len(got)-1] != want {
			t.Errorf("%s %s arrived as %q; want %q", tt.method, tt.target, got[len(got)-1], want)
		}
	}
}

var requestID = regexp.MustCompile(`X-Request-Id: [0-9a-f]{32}\r\n`)

// All fields of a request, as they arrive at the origin.
func TestH17_RequestFields(t *testing.T) {
	var seen recorder
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		for {
			h, err := readHead(br)
			if err != nil {
				return
			}
			lines := strings.Split(strings.TrimSuffix(h, "\r\n\r\n"), "\r\n")[1:]
			slices.SortStableFunc(lines, func(a, b string) int {
				a, _, _ = strings.Cut(a, ":")
				b, _, _ = strings.Cut(b, ":")
				return strings.Compare(strings.ToLower(a), strings.ToLower(b))
			})
			seen.add(requestID.ReplaceAllString(strings.Join(lines, "\r\n")+"\r\n", "X-Request-Id: R\r\n"))
			io.WriteString(c, ok)
		}
	})
	r.f.Trusted = func(r *http.Request) bool { return r.Header.Get("Trust") == "yes" }
	const ours = "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Host: h\r\nX-Forwarded-Proto: http\r\nX-Request-Id: R\r\n"
	for _, tt := range []struct{ name, send, want string }{
		{"nothing is added", "", "Host: h\r\nVia: 1.1 weir\r\n" + ours},
		{"order and repetition", "B: 2\r\nA: 1\r\nB: 1, 3\r\nB: \r\n", "A: 1\r\nB: 2\r\nB: 1, 3\r\nB: \r\nHost: h\r\nVia: 1.1 weir\r\n" + ours},
		{"what a client says", "User-Agent: x\r\nAccept-Encoding: br\r\n", "Accept-Encoding: br\r\nHost: h\r\nUser-Agent: x\r\nVia: 1.1 weir\r\n" + ours},
		{"hop by hop", "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nTE: trailers, gzip\r\nProxy-Connection: x\r\nProxy-Authorization: x\r\n",
			"Host: h\r\nTe: trailers\r\nVia: 1.1 weir\r\n" + ours},
		{"via", "Via: 1.0 fred, 1.1 p\r\n", "Host: h\r\nVia: 1.0 fred, 1.1 p\r\nVia: 1.1 weir\r\n" + ours},
		{"untrusted", "X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Port: 1\r\nForwarded: for=1.2.3.4\r\n",
			"Host: h\r\nVia: 1.1 weir\r\n" + ours},
		{"nominated by Connection", "Connection: X-Forwarded-For, X-Request-ID, Via\r\n", "Host: h\r\nVia: 1.1 weir\r\n" + ours},
		{"trusted", "Trust: yes\r\nX-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: o\r\nForwarded: for=1.2.3.4\r\n",
			"Forwarded: for=1.2.3.4, for=127.0.0.1\r\nHost: h\r\nTrust: yes\r\nVia: 1.1 weir\r\nX-Forwarded-For: 1.2.3.4, 5.6.7.8, 127.0.0.1\r\n" +
				"X-Forwarded-Host: o\r\nX-Forwarded-Proto: https\r\nX-Request-Id: R\r\n"},
		{"an id that is sane", "X-Request-ID: a-1\r\n", "Host: h\r\nVia: 1.1 weir\r\n" + strings.Replace(ours, ": R", ": a-1", 1)},
		{"an id that is not", "X-Request-ID: a b\r\n", "Host: h\r\nVia: 1.1 weir\r\n" + ours},
		{"an id that is long", "X-Request-ID: " + strings.Repeat("x", 129) + "\r\n", "Host: h\r\nVia: 1.1 weir\r\n" + ours},
		{"two ids", "X-Request-ID: a\r\nX-Request-ID: b\r\n", "Host: h\r\nVia: 1.1 weir\r\n" + ours},
	} {
		c := r.client()
		c.send("GET / HTTP/1.1\r\nHost: h\r\n" + tt.send + "\r\n")
		c.answer("GET")
		got := seen.all()
		if got[len(got)-1] != tt.want {
			t.Errorf("%s: the origin got\n%s\nwant\n%s", tt.name, got[len(got)-1], tt.want)
		}
	}
}

var date = regexp.MustCompile(`Date: [^\r]*\r\n`)

// Complete responses, as they arrive at the client.
func TestH17_AnswersArriveAsTheyCame(t *testing.T) {
	for _, tt := range []struct{ name, request, answer, want string }{
		{"no type is made up", "GET / HTTP/1.1", "200 OK\r\nContent-Length: 6\r\n\r\n<html>", "200 OK\r\nContent-Length: 6\r\nVia: 1.1 weir\r\n\r\n<html>"},
		{"order and repetition", "GET / HTTP/1.1", "404 Not Found\r\nSet-Cookie: b=1\r\nSet-Cookie: a=2\r\nContent-Length: 0\r\n\r\n",
			"404 Not Found\r\nContent-Length: 0\r\nSet-Cookie: b=1\r\nSet-Cookie: a=2\r\nVia: 1.1 weir\r\n\r\n"},
		{"gzip is left alone", "GET / HTTP/1.1", "200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08", "200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\nVia: 1.1 weir\r\n\r\n\x1f\x8b\x08"},
		{"hop by hop", "GET / HTTP/1.1", "200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nContent-Length: 0\r\n\r\n",
			"200 OK\r\nContent-Length: 0\r\nVia: 1.1 weir\r\n\r\n"},
		{"HEAD", "HEAD / HTTP/1.1", "200 OK\r\nContent-Length: 77\r\nETag: \"x\"\r\n\r\n", "200 OK\r\nContent-Length: 77\r\nEtag: \"x\"\r\nVia: 1.1 weir\r\n\r\n"},
		{"HEAD without length", "HEAD / HTTP/1.1", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "200 OK\r\nVia: 1.1 weir\r\n\r\n"},
		{"204", "GET / HTTP/1.1", "204 No Content\r\nX: 1\r\n\r\n", "204 No Content\r\nVia: 1.1 weir\r\nX: 1\r\n\r\n"},
		{"304", "GET / HTTP/1.1", "304 Not Modified\r\nContent-Length: 77\r\nContent-Type: a/b\r\nETag: \"x\"\r\n\r\n",
			"304 Not Modified\r\nEtag: \"x\"\r\nVia: 1.1 weir\r\ncontent-length: 77\r\ncontent-type: a/b\r\n\r\n"},
		{"chunks", "GET / HTTP/1.1", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\n\r\n", "200 OK\r\nVia: 1.1 weir\r\nContent-Length: 3\r\n\r\nabc"},
		{"no chunks", "GET / HTTP/1.1", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "200 OK\r\nVia: 1.1 weir\r\nContent-Length: 0\r\n\r\n"},
		{"trailers", "GET / HTTP/1.1", "200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\nX-Sum: 2\r\nX-More: 3\r\n\r\n",
			"200 OK\r\nTrailer: X-Sum\r\nVia: 1.1 weir\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-More: 3\r\nX-Sum: 1\r\nX-Sum: 2\r\n\r\n"},
		{"trailers that nobody announced", "GET / HTTP/1.1", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n",
			"200 OK\r\nVia: 1.1 weir\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n"},
		{"HTTP/1.0", "GET / HTTP/1.0", "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3\r\nabc\r\n0\r\nX: 1\r\n\r\n", "200 OK\r\nVia: 1.1 weir\r\nContent-Length: 3\r\n\r\nabc"},
		{"our own age", "GET / HTTP/1.1", "200 OK\r\nVia: 1.1 a\r\nContent-Length: 0\r\n\r\n", "200 OK\r\nContent-Length: 0\r\nVia: 1.1 a\r\nVia: 1.1 weir\r\n\r\n"},
		{"early hints", "GET / HTTP/1.1", "103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			"103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\nVia: 1.1 weir\r\n\r\n"},
		{"early hints are not for HTTP/1.0", "GET / HTTP/1.0", "103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
			"200 OK\r\nContent-Length: 0\r\nVia: 1.1 weir\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, answers("HTTP/1.1 "+tt.answer))
			c := r.client()
			c.send(tt.request + "\r\nHost: h\r\nConnection: close\r\n\r\n")
			got, err := c.rest()
			got = strings.Replace(date.ReplaceAllString(got, ""), "Connection: close\r\n", "", 1)
			got = strings.ReplaceAll(strings.ReplaceAll(got, "HTTP/1.0 ", ""), "HTTP/1.1 ", "")
			want := strings.ReplaceAll(tt.want, "HTTP/1.1 ", "")
			// Framing is up to net/http: a header sent before its body has no
			// length. On a busy machine, that can happen here.
			slow := map[string]string{
				"chunks":    "200 OK\r\nVia: 1.1 weir\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
				"no chunks": "200 OK\r\nVia: 1.1 weir\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
				"HTTP/1.0":  "200 OK\r\nVia: 1.1 weir\r\n\r\nabc",
			}
			if got != want && got != slow[tt.name] || !isEOF(err) {
				t.Errorf("the client got\n%q, %v\nwant\n%q", got, err, want)
			}
		})
	}
}

// A response to HEAD, a 204 and a 304 end with their heads (RFC 9112, section 6.3), whatever
// the server sends after them: they arrive, the server is not blamed, and the connection
// is not used again.
func TestH17_ABodyBehindAResponseWithoutOneIsDropped(t *testing.T) {
	for _, tt := range []struct{ name, request, answer, want string }{
		{"HEAD", "HEAD / HTTP/1.1", "200 OK\r\nContent-Length: 3\r\n\r\nabc", "200 OK\r\nContent-Length: 3\r\nVia: 1.1 weir\r\n\r\n"},
		{"HEAD in chunks", "HEAD / HTTP/1.1", "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "200 OK\r\nVia: 1.1 weir\r\n\r\n"},
		{"HEAD that is not found", "HEAD / HTTP/1.1", "404 Not Found\r\nContent-Length: 3\r\n\r\nabc", "404 Not Found\r\nContent-Length: 3\r\nVia: 1.1 weir\r\n\r\n"},
		{"204", "GET / HTTP/1.1", "204 No Content\r\nX: 1\r\n\r\nabc", "204 No Content\r\nVia: 1.1 weir\r\nX: 1\r\n\r\n"},
		{"304", "GET / HTTP/1.1", "304 Not Modified\r\nETag: \"x\"\r\n\r\nabc", "304 Not Modified\r\nEtag: \"x\"\r\nVia: 1.1 weir\r\n\r\n"},
		{"what looks like a response", "HEAD / HTTP/1.1", "200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", "200 OK\r\nContent-Length: 3\r\nVia: 1.1 weir\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			r := newRig(t, func(c net.Conn, br *bufio.Reader) {
				for {
					if _, err := readHead(br); err != nil {
						return
					}
					calls.Add(1)
					_, _ = io.WriteString(c, "HTTP/1.1 "+tt.answer)
				}
			})
			for i := range 10 {
				c := r.client()
				c.send(tt.request + "\r\nHost: h\r\nConnection: close\r\n\r\n")
				got, err := c.rest()
				got = strings.Replace(date.ReplaceAllString(got, ""), "Connection: close\r\n", "", 1)
				if got = strings.Replace(got, "HTTP/1.1 ", "", 1); got != tt.want || !isEOF(err) {
					t.Errorf("request %d got\n%q, %v\nwant\n%q", i, got, err, tt.want)
				}
			}
			if n := calls.Load(); n != 10 {
				t.Errorf("%d calls; want 10", n)
			}
		})
	}
}

// Request bodies, as they arrive at the origin.
func TestH17_RequestBodies(t *testing.T) {
	var seen recorder
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, err := io.ReadAll(req.Body)
			seen.add(fmt.Sprintf("%d %v %s %v %v", req.ContentLength, req.TransferEncoding, b, err, req.Trailer))
			io.WriteString(c, ok)
		}
	})
	for _, tt := range []struct{ send, want string }{
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "3 [] abc <nil> map[]"},
		{"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "3 [] abc <nil> map[]"},
		{"GET / HTTP/1.1\r\nHost: h\r\n\r\n", "0 []  <nil> map[]"},
		{"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "0 []  <nil> map[]"},
		{"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "-1 [chunked] abc <nil> map[]"},
		{"DELETE / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "-1 [chunked] abc <nil> map[]"},
		{"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "-1 [chunked]  <nil> map[]"},
		{"PUT / HTTP/1.1\r\nHost: h\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 9\r\nX-More: 1\r\n\r\n", "-1 [chunked] abc <nil> map[X-More:[1] X-Sum:[9]]"},
		{"PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 9\r\n\r\n", "-1 [chunked] abc <nil> map[X-Sum:[9]]"},
	} {
		c := r.client()
		c.send(tt.send)
		c.answer("GET")
		if got := seen.all(); len(got) == 0 || got[len(got)-1] != tt.want {
			t.Errorf("%q arrived as %q; want %q", tt.send, got[len(got)-1:], tt.want)
		}
	}
}

func TestSetAndRemove(t *testing.T) {
	var seen recorder
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		h, _ := readHead(br)
		seen.add(h)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nServer: x\r\nA: 1\r\nContent-Length: 0\r\n\r\n")
	})
	r.f.RemoveRequest, r.f.SetRequest = []string{"cookie"}, http.Header{"host": {"other.test"}, "x-key": {"1", "2"}, "Host": {"other.test"}}
	r.f.RemoveResponse, r.f.SetResponse = []string{"server"}, http.Header{"a": {"2"}}
	c := r.client()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nCookie: a=1\r\nX-Key: 0\r\n\r\n")
	resp, _, _ := c.answer("GET")
	if resp.Header.Get("Server") != "" || resp.Header.Get("A") != "2" {
		t.Errorf("the client got %v; want no Server and A: 2", resp.Header)
	}
	h := seen.all()[0]
	for _, want := range []string{"Host: other.test\r\n", "X-Key: 1\r\nX-Key: 2\r\n"} {
		if !strings.Contains(h, want) {
			t.Errorf("the origin got %q; want %q in it", h, want)
		}
	}
	if strings.Contains(h, "Cookie") || strings.Contains(h, "X-Key: 0") {
		t.Errorf("the origin got %q; want no Cookie and no X-Key: 0", h)
	}
}

// An origin that receives fields as variables takes a field with "_" for the one that is
// removed or set. Other fields with "_" are the client's.
func TestSetAndRemoveSpelledWithUnderscore(t *testing.T) {
	var seen recorder
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		h, _ := readHead(br)
		seen.add(h)
		io.WriteString(c, ok)
	})
	r.f.RemoveRequest, r.f.SetRequest = []string{"x-user", "x_old"}, http.Header{"x-role": {"guest"}, "X_Level": {"1"}}
	c := r.client()
	c.send("GET / HTTP/1.1\r\nHost: h\r\nX_User: a\r\nx_user: b\r\nX_Role: c\r\nX_Level: d\r\nX_Old: e\r\nX-Old: f\r\nX_Other: g\r\n\r\n")
	c.answer("GET")
	got := strings.Split(seen.all()[0], "\r\n")
	got = slices.DeleteFunc(got, func(line string) bool {
		return !strings.HasPrefix(line, "X") || strings.HasPrefix(line, "X-Forwarded-") || strings.HasPrefix(line, "X-Request-Id")
	})
	slices.Sort(got)
	if want := []string{"X-Old: f", "X-Role: guest", "X_level: 1", "X_other: g"}; !slices.Equal(got, want) {
		t.Errorf("the origin got %q; want %q", got, want)
	}
}

// A field that is removed or set does not come as a trailer instead.
func TestSetAndRemoveInTrailers(t *testing.T) {
	seen := make(chan http.Header, 1)
	r := newRig(t, func(c net.Conn, br *bufio.Reader) {
		req, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		seen <- req.Trailer
		io.WriteString(c, ok)
	})
	r.f.RemoveRequest, r.f.SetRequest = []string{"x-user"}, http.Header{"x-role": {"guest"}}
	c := r.client()
	c.send("PUT / HTTP/1.1\r\nHost: h\r\nTrailer: X-User, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-User: a\r\nX_User: b\r\nX-Role: c\r\nX-Sum: d\r\n\r\n")
	c.answer("PUT")
	if got := <-seen; len(got) != 1 || got.Get("X-Sum") != "d" {
		t.Errorf("the origin got the trailers %q; want X-Sum only", got)
	}
}
