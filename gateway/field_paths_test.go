package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// evasions are ways to write /limited that some origin takes for it, and the
// paths that no origin does. sent is whether the path as sent is under /limited.
var evasions = []struct {
	path       string
	sent       bool
	normalized bool
	caseless   bool
}{
	{"/limited", true, true, true},
	{"/limited/", true, true, true},
	{"/limited/./", true, true, true},
	{"/%6cimited", true, true, true},
	{"/%6Cimited", true, true, true},
	{"//limited", false, true, true},
	{"/x/../limited", false, true, true},
	{"/x/%2e%2E/limited", false, true, true},
	{"/./limited", false, true, true},
	{"/../limited", false, true, true},
	{"/limited;x=1", false, true, true},
	{"/;x/limited", false, true, true},
	{"/x/..;/limited", false, true, true},
	{"/%2flimited", false, true, true},
	{"/x%2f..%2flimited", false, true, true},
	{"/x/..%5climited", false, true, true},
	{"/limited%2Fx", false, true, true},
	{"/limited%3Bx", false, true, true},
	{"/x/..%3b/limited", false, true, true},
	{"/limited%00", false, true, true},
	{"/limited%00.json", false, true, true},
	{"/limited%0A", false, true, true},
	{"/limited%3Fx", false, true, true},
	{"/limited%23x", false, true, true},
	{"/limited.", false, true, true},
	{"/limited%20", false, true, true},
	{"/%256cimited", false, true, true},
	{"/x%252f%252e%252e%252flimited", false, true, true},
	{"/LIMITED", false, false, true},
	{"/%4cimited/x", false, false, true},
	{"//x/../LIMITED;y", false, false, true},
	{"/limitedx", false, false, false},
	{"/x/limited", false, false, false},
	{"/limited.json", false, false, false},
	{"/%25256cimited", false, false, false},
	{"/", false, false, false},
}

// raw asks for a path as it is written, over either protocol, and returns the
// answer with the route that it came through.
func (s *site) raw(path string) reply {
	s.t.Helper()
	if strings.HasPrefix(s.url, "https://") {
		r := s.request("GET", "/", nil)
		r.URL = &url.URL{Scheme: "https", Host: r.URL.Host, Opaque: "//" + r.URL.Host + path}
		return s.do(r)
	}
	c := s.rawDial()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return reply{err: err}
	}
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), err}
}

// No way to write a path evades a route's limits where it asks for that, and
// what is forwarded is what the client sent (H13, H17, H9).
func TestH13_NoSpellingOfAPathEvadesARoute(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		for _, match := range []gateway.PathMatch{gateway.MatchSent, gateway.MatchNormalized, gateway.MatchCaseless} {
			o := serving(t, "a", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Cache-Control", "max-age=60")
				io.WriteString(w, r.RequestURI)
			})
			c := config(upstreamOf(o))
			c.Routes = append(c.Routes, gateway.Route{
				Name: "limited", Path: "/limited", PathMatch: match, Rate: &weirhttp.ClientLimiterOptions{Rate: 1000, Per: time.Hour},
			})
			s := open(c)
			for _, e := range evasions {
				want := map[gateway.PathMatch]bool{gateway.MatchSent: e.sent, gateway.MatchNormalized: e.normalized, gateway.MatchCaseless: e.caseless}[match]
				got := s.raw(e.path)
				if got.err != nil || got.status != 200 || got.body != e.path {
					t.Errorf("match %d: GET %s = %d %q, %v; want 200 and the path as it was sent", match, e.path, got.status, got.body, got.err)
				}
				if limited := got.header.Get("Ratelimit") != ""; limited != want {
					t.Errorf("match %d: GET %s is limited: %v; want %v", match, e.path, limited, want)
				}
			}
			// Each spelling has an entry of its own.
			if n := int64(len(evasions)); o.calls.Load() < n {
				t.Errorf("the origin got %d calls; want %d, one for each path as it was sent", o.calls.Load(), n)
			}
		}
	})
}

// One bucket is for all spellings (H13).
func TestH13_AllSpellingsUseOneBucket(t *testing.T) {
	overBoth(t, func(t *testing.T, open func(gateway.Config) *site) {
		o := serving(t, "a", nil)
		c := config(upstreamOf(o))
		c.Routes = append(c.Routes, gateway.Route{
			Name: "limited", Path: "/limited", PathMatch: gateway.MatchCaseless, Rate: &weirhttp.ClientLimiterOptions{Rate: 3, Per: time.Hour},
		})
		s := open(c)
		n := 0
		for _, e := range evasions {
			if !e.caseless {
				continue
			}
			want := 200
			if n++; n > 3 {
				want = 429
			}
			if got := s.raw(e.path); got.status != want {
				t.Errorf("request %d, GET %s = %d; want %d", n, e.path, got.status, want)
			}
		}
	})
}
