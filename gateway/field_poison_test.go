package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// told renders a request as an origin may look at it, all but what net/http and
// the gateway write for each client.
func told(r *http.Request) string {
	var b strings.Builder
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(&b, "%s %s %s %q\n", r.Method, r.Host, r.RequestURI, body)
	for name, v := range r.Header {
		switch name {
		case "X-Request-Id", "User-Agent", "Content-Length":
			continue
		}
		fmt.Fprintf(&b, "%s: %q\n", name, v)
	}
	lines := strings.Split(b.String(), "\n")
	slices.Sort(lines[1:])
	return strings.Join(lines, "\n")
}

// unkeyed are fields that clients send to change what an origin answers, though
// the cache's key has none of them. Those that are removed cannot. The others
// are forwarded as they came (H17), since they mean something between a client
// and its own origin; an origin that depends on one of them, and neither names
// it in Vary nor omits explicit freshness, sends its responses to the wrong
// clients behind any cache. RemoveRequest takes them out; see the tests below.
var unkeyed = []struct {
	name, value string
	forwarded   bool
}{
	{"X-Forwarded-Host", "evil.test", false},
	{"X-Forwarded-Proto", "https", false},
	{"X-Forwarded-Scheme", "https", false},
	{"X-Forwarded-Port", "1", false},
	{"X-Forwarded-Prefix", "/evil", false},
	{"X-Forwarded-Server", "evil.test", false},
	{"X-Forwarded-For", "192.0.2.66", false},
	{"X-Forwarded-Ssl", "on", false},
	{"Forwarded", "for=192.0.2.66;host=evil.test;proto=https", false},
	{"X_forwarded_host", "evil.test", false},
	{"X_Forwarded-Proto", "https", false},
	{"x-forwarded_for", "192.0.2.66", false},
	{"X_Forwarded_For", "192.0.2.66", false},
	{"X-Forwarded_Host", "evil.test", false},
	{"Proxy-Authorization", "Basic x", false},
	{"TE", "gzip", false},
	{"X-Original-URL", "/admin", true},
	{"X-Rewrite-URL", "/admin", true},
	{"X-Original-Host", "evil.test", true},
	{"X-Host", "evil.test", true},
	{"X-HTTP-Method-Override", "DELETE", true},
	{"X-HTTP-Method", "DELETE", true},
	{"X-Method-Override", "DELETE", true},
	{"X-Real-IP", "192.0.2.66", false},
	{"True-Client-IP", "192.0.2.66", false},
	{"CF_Connecting-IP", "192.0.2.66", false},
	{"Accept", "text/evil", true},
	{"Accept-Language", "xx", true},
	{"Origin", "https://evil.test", true},
	{"Transfer_Encoding", "chunked", false},
	{"X-Evil", "1", true},
}

func TestField_WhatIsForwardedUnkeyedIsKnown(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, told(r))
		})))))
		plain := s.get("/").body
		for _, row := range unkeyed {
			got := s.get("/", row.name, row.value)
			// HTTP/2 allows nothing but "trailers" in TE.
			forwarded := got.status != 400 && got.body != plain
			if got.err != nil || forwarded != row.forwarded || got.status != 200 && row.name != "TE" {
				t.Errorf("%s: %d, forwarded %t; want %t:\n%s", row.name, got.status, forwarded, row.forwarded, got.body)
			}
		}
	})
}

// A request of an attacker changes nothing for requests that wait with it, or
// come later: not where the origin states no freshness, whatever it depends on;
// not where it says what it varies by; and with what it states without saying
// so, not where the field is removed.
func TestField_KeysCannotBePoisoned(t *testing.T) {
	for _, how := range []string{"no freshness", "vary", "removed"} {
		g := newGathering()
		c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			switch how {
			case "vary":
				w.Header().Set("Cache-Control", "max-age=60")
				for _, row := range unkeyed {
					w.Header().Add("Vary", row.name)
				}
			case "removed":
				w.Header().Set("Cache-Control", "max-age=60")
			}
			io.WriteString(w, told(r))
		})))
		for _, row := range unkeyed {
			if how == "removed" && row.forwarded {
				c.Routes[0].RemoveRequest = append(c.Routes[0].RemoveRequest, row.name)
			}
		}
		s := open(t, c)
		expected := s.crowd(1, s.same("/-1", "Host", "h.test"))
		g.await(t, 1)
		g.letGo(1)
		want := expected()[0].body
		for i, row := range unkeyed {
			path := fmt.Sprint("/", i)
			attacker := s.crowd(1, s.same(path, "Host", "h.test", row.name, row.value))
			g.await(t, 1)
			victims := s.crowd(10, s.same(path, "Host", "h.test"))
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case g.let <- struct{}{}:
					case <-stop:
						return
					}
				}
			}()
			attacker()
			got := append(victims(), s.get(path, "Host", "h.test"))
			close(stop)
			<-stopped
			for j, one := range got {
				if body := strings.Replace(one.body, path, "/-1", 1); one.status != 200 || body != want {
					t.Errorf("%s, %s, client %d: %d\n%s\nwant\n%s", how, row.name, j, one.status, body, want)
					break
				}
			}
			for len(g.there) > 0 {
				<-g.there
			}
		}
	}
}

// A GET with a body, which the key has nothing of, is neither led nor joined nor
// stored.
func TestField_FatGet(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			w.Header().Set("Cache-Control", "max-age=60")
			fmt.Fprintf(w, "answer to %q", b)
		})))))
		for _, body := range []io.Reader{strings.NewReader("evil=1"), struct{ io.Reader }{strings.NewReader("evil=1")}} {
			if got := s.do(s.request("GET", "/", body)); got.body != `answer to "evil=1"` {
				t.Errorf("GET with a body = %d %q, %v", got.status, got.body, got.err)
			}
			if n := s.g.Cache().Stats().Responses; n != 0 {
				t.Errorf("%d stored; want none", n)
			}
		}
		s.want("/", 200, `answer to ""`)
		s.stored(1)
		if got := s.do(s.request("GET", "/", strings.NewReader("more"))); got.body != `answer to "more"` {
			t.Errorf("GET with a body = %d %q, %v; want its own answer", got.status, got.body, got.err)
		}
		s.want("/", 200, `answer to ""`)
	})
}

// The key is the target as it is forwarded, byte for byte: what an origin may
// take for the same, or for something else, is decided there (parameter
// cloaking, normalization, absolute form).
func TestField_TheKeyIsTheTargetAsForwarded(t *testing.T) {
	var calls atomic.Int64
	s := open(t, config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprintf(w, "%s %s", r.Host, r.RequestURI)
	}))))
	targets := []string{
		"/a?x=1", "/a?x=1;x=2", "/a?x=1&x=2", "/a?x=1&utm_content=1;x=2", "/a?x=1%26x=2", "/a?x[]=1", "/a?X=1",
		"/a", "/a?", "/?b", "/", "/?b=http://x.test/c", "/a??", "/a/", "//a", "/./a", "/b/../a", "/b/..%2fa", "/%61", "/A", "/a%00", "/a;jsessionid=1",
		"/a|b", "/a%7Cb", "/a%7cb", "/a\"b", "/a%22b", "/a\\b", "/a%5Cb", "/a{b}", "/a%7Bb%7D", "/a^b", "/a`b", "/a<b>", "/a%3Cb%3E", "/a\xffb", "/a%FFb",
	}
	ask := func(line, host, want string) {
		t.Helper()
		c := s.rawDial()
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", line, host)
		b, _ := io.ReadAll(c)
		if _, body, _ := strings.Cut(string(b), "\r\n\r\n"); body != want {
			t.Errorf("GET %s of %s = %q; want %q", line, host, body, want)
		}
	}
	for range 2 {
		for _, target := range targets {
			ask("http://h.test"+target, "other.test", "h.test "+target)
			ask(target, "h.test", "h.test "+target)
			ask(target, "h.test:80", "h.test:80 "+target)
			ask(target, "H.test", "H.test "+target)
		}
	}
	if n := calls.Load(); n != int64(3*len(targets)) {
		t.Errorf("%d calls; want %d: absolute form is the same as the other", n, 3*len(targets))
	}
}

// "Cache deception": what a path ends with says nothing. Where the origin says
// nothing either, nothing is stored, and nobody has what is another's.
func TestField_NothingIsCachedBySuffix(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		s := open(config(upstreamOf(serving(t, "o", probed(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/css")
			w.Header().Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			w.Header().Set("ETag", `"1"`)
			io.WriteString(w, "account of "+r.Header.Get("Cookie"))
		})))))
		for _, path := range []string{
			"/account.css", "/account/x.css", "/account/x.js", "/account%2Fx.css", "/account;x.css", "/account%3Bx.css",
			"/account?x.css", "/account%3Fx.css", "/account%23x.css", "/account%00.css", "/account%0A.css",
			"/static/..%2faccount", "/static/../account", "/robots.txt", "/favicon.ico", "/account.png",
		} {
			for _, who := range []string{"victim", "attacker", "victim"} {
				s.want(path, 200, "account of "+who, "Cookie", who)
			}
			s.want(path, 200, "account of ")
		}
		if n := s.g.Cache().Stats().Stored; n != 0 {
			t.Errorf("%d were stored; want none", n)
		}
	})
}
