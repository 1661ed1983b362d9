package gateway_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-go/weir/gateway"
)

// forwarding are the fields that say for whom a request is.
var forwarding = []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "Forwarded", "X_forwarded_for"}

// H19: what anybody says about whom a request is for is dropped; what a trusted
// proxy says is passed on, and the proxy itself added.
func TestField_H19_ForwardedFields(t *testing.T) {
	for _, row := range []struct {
		trusted bool
		want    []string // of forwarding
	}{
		{false, []string{"127.0.0.1", "http", "h.test", "", "", ""}},
		{true, []string{"192.0.2.7, 127.0.0.1", "https", "shop.test", "8443", "for=192.0.2.7, for=127.0.0.1", ""}},
	} {
		c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
			for _, name := range forwarding {
				io.WriteString(w, strings.Join(r.Header[name], "|")+"\n")
			}
		})))
		if row.trusted {
			c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
		}
		got := open(t, c).get("/", "Host", "h.test", "X-Forwarded-For", "192.0.2.7", "X-Forwarded-Proto", "https",
			"X-Forwarded-Host", "shop.test", "X-Forwarded-Port", "8443", "Forwarded", "for=192.0.2.7", "X_Forwarded_For", "192.0.2.66")
		if lines := strings.Split(strings.TrimSuffix(got.body, "\n"), "\n"); !slices.Equal(lines, row.want) {
			t.Errorf("trusted %t: the origin saw %q; want %q", row.trusted, lines, row.want)
		}
	}
}

// H19 and H9: the scheme that a trusted proxy tells is part of the key, so that
// an answer to one is not given to the other; that of anybody else is not.
func TestField_H19_KeysByScheme(t *testing.T) {
	for _, trusted := range []bool{false, true} {
		var calls atomic.Int64
		c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			w.Header().Set("Cache-Control", "max-age=60")
			io.WriteString(w, "over "+r.Header.Get("X-Forwarded-Proto"))
		})))
		want := map[string]string{"http": "over http", "https": "over http"}
		if trusted {
			c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
			want["https"] = "over https"
		}
		s := open(t, c)
		for i, proto := range []string{"https", "http", "https", "http"} {
			s.want("/", 200, want[proto], "X-Forwarded-Proto", proto)
			s.stored(min(i+1, int(calls.Load())))
		}
		if n := calls.Load(); trusted != (n == 2) || n > 2 {
			t.Errorf("trusted %t: %d calls", trusted, n)
		}
	}
}

// H19: the client's address is never a part of the key; a response without
// freshness is shared by requests that differ in it only.
func TestField_H19_ClientsShare(t *testing.T) {
	g := newGathering()
	c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		g.hold(r)
		io.WriteString(w, "same for all")
	})))
	c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
	c.Routes[0].Coalesce = gateway.CoalesceAnyClient
	s := open(t, c)
	replies := s.crowd(20, func(i int) *http.Request {
		return s.request("GET", "/", nil, "X-Forwarded-For", "192.0.2."+string(rune('0'+i%10)))
	})
	s.waiting(19)
	g.letGo(1)
	s.all(replies(), 200, "same for all")
	if n := g.calls.Load(); n != 1 {
		t.Errorf("%d calls; want 1", n)
	}
}

// H19 and H9: two sites behind one trusted proxy, that tells them apart in
// X-Forwarded-Host only, do not get each other's answers, nor does a purge leave
// one of them.
func TestField_H19_KeysByForwardedHost(t *testing.T) {
	for _, control := range []string{"max-age=60", ""} {
		g := newGathering()
		c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
			g.hold(r)
			if control != "" {
				w.Header().Set("Cache-Control", control)
			}
			io.WriteString(w, "of "+r.Header.Get("X-Forwarded-Host"))
		})))
		c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
		s := open(t, c)
		a := s.crowd(10, s.same("/", "Host", "h.test", "X-Forwarded-Host", "a.test"))
		g.await(t, 1)
		b := s.crowd(10, s.same("/", "Host", "h.test", "X-Forwarded-Host", "b.test"))
		// Before the first answer nobody knows that they differ: they wait, and are released.
		s.until("all are there", func() bool { return s.stats().Waiting >= 18 })
		close(g.let)
		s.all(a(), 200, "of a.test")
		s.all(b(), 200, "of b.test")
		for _, site := range []string{"a.test", "b.test", "a.test"} {
			s.want("/", 200, "of "+site, "Host", "h.test", "X-Forwarded-Host", site)
		}
		if n := g.calls.Load(); control != "" && n != 2 {
			t.Errorf("%d calls; want 2", n)
		}
		_, _ = s.g.Cache().Invalidate(t.Context(), "http", "h.test", "/")
		if n := s.g.Cache().Stats().Responses; n != 0 {
			t.Errorf("%d stored after the purge; want none", n)
		}
	}
}

// H10 and H19: the gateway writes these fields after it has looked for a stored response,
// so an origin that varies by one of them gets every request, alone.
func TestField_H10_VaryOnWhatTheGatewayWrites(t *testing.T) {
	for _, name := range []string{"X-Forwarded-For", "x-forwarded-for", "Via", "X-Request-Id", "Forwarded"} {
		for _, trusted := range []bool{false, true} {
			g := newGathering()
			c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
				g.hold(r)
				w.Header().Set("Cache-Control", "max-age=60")
				w.Header().Set("Vary", "Accept, "+name)
				io.WriteString(w, "a page")
			})))
			want := int64(4)
			if trusted {
				c.TrustedProxies = prefixes("127.0.0.0/8", "::1/128")
			} else if name == "Forwarded" {
				want = 1 // no forwarded request has it
			}
			s := open(t, c)
			together := s.crowd(3, s.same("/"))
			g.await(t, 1)
			close(g.let)
			s.all(together(), 200, "a page")
			s.want("/", 200, "a page")
			if n := g.calls.Load(); n != want {
				t.Errorf("Vary: %s, trusted %t: %d calls; want %d", name, trusted, n, want)
			}
			if n := s.g.Cache().Stats().Responses; (n != 0) != (want == 1) {
				t.Errorf("Vary: %s, trusted %t: %d stored", name, trusted, n)
			}
		}
	}
}

// H9 and H19: fields of an untrusted peer select no response, neither that of a client
// behind a trusted proxy nor one that such a client gets later. The gateway compares the
// fields that the origin gets.
func TestField_H19_UntrustedFieldsSelectNothing(t *testing.T) {
	const proxy, other = "192.0.2.1:9", "198.51.100.1:9"
	for _, row := range [][2]string{
		{"X-Forwarded-Host", "shop.test"}, {"X-Forwarded-Port", "8443"}, {"X-Forwarded-Ssl", "on"}, {"X-Forwarded-Prefix", "/app"},
		{"X-Forwarded-Proto", "wss"}, {"X-Forwarded-Anything", "1"}, {"Forwarded", "host=shop.test"},
	} {
		for _, order := range []string{"the untrusted first", "the trusted first"} {
			for _, vary := range []string{"", row[0]} {
				var calls atomic.Int64
				c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
					calls.Add(1)
					w.Header().Set("Cache-Control", "max-age=60")
					if vary != "" {
						w.Header().Set("Vary", vary)
					}
					io.WriteString(w, "with "+strings.Join(r.Header.Values(row[0]), "|"))
				})))
				c.TrustedProxies = prefixes("192.0.2.0/24")
				s := open(t, c)
				ask := func(from, field string) string {
					t.Helper()
					r := httptest.NewRequest("GET", "http://h.test/", nil)
					r.RemoteAddr = from
					if field != "" {
						r.Header.Set(field, row[1])
					}
					sent := maps.Clone(r.Header)
					_, explained := s.g.Explain(r)
					w := httptest.NewRecorder()
					if vary != "" { // as a handler in front of the route does
						s.g.ServeRoute(w, r, "all")
					} else {
						s.g.ServeHTTP(w, r)
					}
					if hit := strings.Contains(w.Header().Get("Cache-Status"), "; hit"); hit != (explained.Answer == "hit") {
						t.Errorf("%s: Explain says %q, %v; want what happens: %q", row[0], explained.Answer, explained.Steps, w.Header().Get("Cache-Status"))
					}
					if !maps.EqualFunc(r.Header, sent, slices.Equal[[]string]) {
						t.Errorf("%s: the caller's request has %q now; want %q", row[0], r.Header, sent)
					}
					return w.Body.String()
				}
				plain := ""
				switch row[0] { // what the gateway writes itself
				case "X-Forwarded-Host":
					plain = "h.test"
				case "X-Forwarded-Proto":
					plain = "http"
				}
				clients := []func(){
					func() {
						for _, field := range []string{row[0], strings.Replace(row[0], "Forwarded-", "Forwarded_", 1), ""} {
							if got := ask(other, field); got != "with "+plain {
								t.Errorf("%s, %s: the untrusted client got %q; want %q", row[0], order, got, "with "+plain)
							}
						}
					},
					func() {
						want := "with " + row[1]
						if row[0] == "Forwarded" {
							want += ", for=192.0.2.1"
						}
						for range 2 {
							if got := ask(proxy, row[0]); got != want {
								t.Errorf("%s, %s: the client behind the proxy got %q; want %q", row[0], order, got, want)
							}
						}
						if got := ask(proxy, ""); got != "with "+plain {
							t.Errorf("%s, %s: the client behind the proxy without it got %q; want %q", row[0], order, got, "with "+plain)
						}
					},
				}
				if order != "the untrusted first" {
					slices.Reverse(clients)
				}
				for _, client := range clients {
					client()
				}
				if n := calls.Load(); n != 2 && row[0] != "Forwarded" {
					t.Errorf("%s, %s, Vary %q: %d calls; want one for each value", row[0], order, vary, n)
				}
			}
		}
	}
}

// H19: a Rewrite sees the fields that the gateway accepts. Of those that it sets, the ones
// that the servers do not get select nothing.
func TestField_H19_RewriteSelectsOnlyWhatIsForwarded(t *testing.T) {
	c := config(upstreamOf(serving(t, "o", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		io.WriteString(w, "port "+r.Header.Get("X-Forwarded-Port"))
	})))
	c.TrustedProxies = prefixes("192.0.2.0/24")
	c.Routes[0].Rewrite = func(r *http.Request) {
		if p := r.Header.Get("X-Forwarded-Ssl"); p != "" {
			r.Header.Set("X-Forwarded-Port", "443")
		}
		if r.Header.Get("X-Port") != "" {
			r.Header.Set("X-Forwarded-Port", r.Header.Get("X-Port"))
			r.Header.Del("X-Port")
		}
	}
	s := open(t, c)
	for _, row := range []struct{ from, field, want string }{
		{"198.51.100.1:9", "X-Forwarded-Ssl", ""}, {"198.51.100.1:9", "X-Port", ""},
		{"192.0.2.1:9", "X-Port", "443"}, {"192.0.2.1:9", "X-Other", ""},
	} {
		r := httptest.NewRequest("GET", "http://h.test/", nil)
		r.RemoteAddr = row.from
		r.Header.Set(row.field, "443")
		w := httptest.NewRecorder()
		s.g.ServeHTTP(w, r)
		if got := w.Body.String(); got != "port "+row.want {
			t.Errorf("from %s with %s: %q; want %q", row.from, row.field, got, "port "+row.want)
		}
	}
}

// H10: a configuration that wants one of these fields to select a response cannot be
// obeyed. Fields that only proxies write can be named.
func TestField_H10_PolicyCannotVaryOnWhatTheGatewayWrites(t *testing.T) {
	for name, ok := range map[string]bool{
		"x-forwarded-for": false, "Via": false, "X-Request-ID": false, "forwarded": false,
		"X-Forwarded-Host": true, "X-Forwarded-Proto": true, "X-Real-IP": true,
	} {
		c := config(upstreamOf(serving(t, "o", nil)))
		c.Routes[0].Cache.Vary = []string{"Accept", name}
		err := c.Validate()
		if ok && err != nil || !ok && (err == nil || !strings.Contains(err.Error(), `Routes[0].Cache.Vary[1] is "`+name+`"`)) {
			t.Errorf("Validate with Cache.Vary %q = %v; want accepted %t", name, err, ok)
		}
	}
}
