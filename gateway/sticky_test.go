package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// cookieOf returns the cookie of a response that names a server, nil without one.
func cookieOf(h http.Header) *http.Cookie {
	for _, c := range (&http.Response{Header: h}).Cookies() {
		if c.Name == "srv" {
			return c
		}
	}
	return nil
}

// stickyPool has servers that begin a session at /login.
func stickyPool(t *testing.T, edit func(*gateway.Config)) *pool {
	t.Helper()
	p := &pool{}
	for _, name := range []string{"0", "1", "2", "3"} {
		p.servers = append(p.servers, serving(t, name, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/login":
				w.Header().Set("Set-Cookie", "session=1")
			case "/own":
				w.Header().Set("Cache-Control", "private, no-store")
			case "/shared":
				w.Header().Set("Cache-Control", "max-age=60")
			}
			io.WriteString(w, name)
		}))
	}
	c := config(upstreamOf(p.servers...))
	c.Upstreams[0].Sticky = &gateway.Sticky{Cookie: "srv", Key: []byte("0123456789abcdef")}
	if edit != nil {
		edit(&c)
	}
	p.site = open(t, c)
	return p
}

func (p *pool) with(path, cookie string) *http.Request {
	r := p.request("GET", path, nil)
	if cookie != "" {
		r.Header.Set("Cookie", "a=b; srv="+cookie)
	}
	return r
}

func TestH39_ASessionStaysAtItsServer(t *testing.T) {
	p := stickyPool(t, nil)
	servers := map[string]bool{}
	for range 40 {
		first := p.do(p.with("/login", ""))
		c := cookieOf(first.header)
		if c == nil || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure || c.Path != "/" || len(c.Value) != 22 {
			t.Fatalf("the cookie is %+v; want one with its attributes", c)
		}
		servers[first.body] = true
		for _, path := range []string{"/x", "/own", "/login"} {
			got := p.do(p.with(path, c.Value))
			if got.body != first.body || cookieOf(got.header) != nil {
				t.Fatalf("%s was answered by %s with the cookie %v; want %s, and no other cookie", path, got.body, cookieOf(got.header), first.body)
			}
		}
	}
	if len(servers) < 3 {
		t.Errorf("40 sessions are at %d servers; want them spread", len(servers))
	}
}

// A forged or old cookie is ignored, and replaced.
func TestH39_AForgedCookieIsIgnored(t *testing.T) {
	p := stickyPool(t, nil)
	other := stickyPool(t, func(c *gateway.Config) { c.Upstreams[0].Sticky.Key = []byte("another key of 16") })
	old := cookieOf(other.do(other.with("/login", "")).header).Value
	for _, forged := range []string{"0", "127.0.0.1", strings.Repeat("A", 22), old, "\"\""} {
		servers := map[string]bool{}
		for range 30 {
			got := p.do(p.with("/own", forged))
			if servers[got.body] = true; got.status != 200 || cookieOf(got.header) == nil {
				t.Fatalf("%q: status %d, cookie %v; want 200 and a new cookie", forged, got.status, cookieOf(got.header))
			}
		}
		if len(servers) < 3 {
			t.Errorf("%q reached %d servers; want any", forged, len(servers))
		}
	}
}

// No response that another client gets has the cookie.
func TestH39_ASharedResponseHasNoCookie(t *testing.T) {
	p := stickyPool(t, nil)
	for range 3 {
		if got := p.do(p.with("/shared", "")); cookieOf(got.header) != nil {
			t.Errorf("a response that is stored has the cookie %v", cookieOf(got.header))
		}
	}
	if s := p.g.Stats().Routes["all"]; s.Hits != 2 {
		t.Errorf("%d of 3 requests were hits; want 2", s.Hits)
	}
}

// A session whose server is drained goes to another one, and stays there.
func TestH39_ASessionLeavesADrainedServer(t *testing.T) {
	var c gateway.Config
	p := stickyPool(t, func(own *gateway.Config) { c = *own })
	first := p.do(p.with("/login", ""))
	c.Upstreams = append([]gateway.Upstream(nil), c.Upstreams...)
	c.Upstreams[0].ServerSettings = make([]gateway.ServerSettings, 4)
	c.Upstreams[0].ServerSettings[first.body[0]-'0'].Weight = -1
	if err := p.g.Update(c); err != nil {
		t.Fatal(err)
	}
	moved := p.do(p.with("/own", cookieOf(first.header).Value))
	if moved.body == first.body || cookieOf(moved.header) == nil {
		t.Fatalf("%s has answered, cookie %v; want another server, and its cookie", moved.body, cookieOf(moved.header))
	}
	for range 10 {
		if got := p.do(p.with("/own", cookieOf(moved.header).Value)); got.body != moved.body {
			t.Fatalf("%s has answered; want %s again", got.body, moved.body)
		}
	}
}

// A session that begins while there is one server finds it when there are more.
func TestH39_ASessionOfTheOnlyServer(t *testing.T) {
	p := stickyPool(t, func(c *gateway.Config) {
		c.Upstreams[0].ServerSettings = nil
		c.Upstreams[0].Servers = c.Upstreams[0].Servers[:1]
	})
	if got := p.do(p.with("/login", "")); cookieOf(got.header) == nil {
		t.Error("no cookie; want that of the only server")
	}
}

// A client without a session gets no cookie, since its requests are shared only without one.
func TestH39_NoSessionNoCookie(t *testing.T) {
	p := stickyPool(t, nil)
	if got := p.do(p.with("/own", "")); cookieOf(got.header) != nil {
		t.Errorf("a response that begins no session has the cookie %v", cookieOf(got.header))
	}
}
