package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
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
