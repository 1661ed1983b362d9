package weirhttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// whoAsked answers with the values of the fields by which it tells clients apart.
func whoAsked(fields ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(slow)
		for _, name := range fields {
			_, _ = fmt.Fprintf(w, "%s=%q ", name, r.Header[http.CanonicalHeaderKey(name)])
		}
	}
}

// unheardOf are fields by which services tell clients apart, and that no list has.
var unheardOf = []string{"X-Typesense-Api-Key", "X-Hasura-Role", "Private-Token", "X-Clickhouse-User", "X-Amzn-Oidc-Accesstoken", "Tenant"}

// H2, H32: where the route states the lifetime, an unknown field keeps
// clients apart: one after the other and at once, in a GET, a read with a body and a
// shared stream, and a client without the field from both.
func TestH2_AnUnknownFieldKeepsClientsApart(t *testing.T) {
	options := map[string]weirhttp.Options{
		"GET":  {Policy: weirhttp.Policy{TTL: time.Minute}},
		"POST": {Policy: weirhttp.Policy{TTL: time.Minute}, Reads: []weirhttp.ReadRule{{Methods: []string{"POST"}, Types: []string{"application/json"}}}},
	}
	for method, o := range options {
		for _, name := range unheardOf {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, h1, o, whoAsked(name))
				clients := [][]string{{name, "alice"}, {name, "bob"}, nil, {name, ""}}
				ask := func(i int) *http.Request {
					fields := clients[i%len(clients)]
					if method == http.MethodGet {
						return s.request(t.Context(), method, "/a", fields...)
					}
					r := s.request(t.Context(), method, "/a", append(slices.Clone(fields), "Content-Type", "application/json")...)
					const body = `{"q":1}`
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
					return r
				}
				for range 2 {
					for i, r := range s.together(2*len(clients), ask) {
						var value []string
						if fields := clients[i%len(clients)]; fields != nil {
							value = fields[1:]
						}
						r.want(t, 200, fmt.Sprintf("%s=%q ", name, value))
					}
				}
				s.wantCalls(int64(len(clients)))
			})
		}
	}
}

// H2: any number of clients have their own responses to one URL, whatever MaxVariants is,
// and one purge removes all. Here they use a GET and a read with a body.
func TestH2_ManyClientsHaveTheirOwn(t *testing.T) {
	clients := 10_000
	if raceEnabled {
		clients = 1000 // each costs ten times as much
	}
	var calls atomic.Int64
	cache, err := weirhttp.NewCache(256 << 20)
	if err != nil {
		t.Fatal(err)
	}
	h, err := weirhttp.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		_, _ = io.WriteString(w, r.Header.Get("X-Api-Key"))
	}), weirhttp.Options{
		Cache:  cache,
		Policy: weirhttp.Policy{TTL: time.Minute}, MaxVariants: 2,
		Reads: []weirhttp.ReadRule{{Methods: []string{"POST"}, Types: []string{"application/json"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) }) // nothing can fail
	round := func(want int) {
		t.Helper()
		before := calls.Load()
		for i := range clients {
			for _, body := range []string{"", `{"q":1}`} {
				r := httptest.NewRequest(http.MethodGet, "http://shop.example/a", nil)
				if body != "" && i >= clients/10 {
					continue
				}
				if body != "" {
					r = httptest.NewRequest(http.MethodPost, "http://shop.example/a", strings.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
				}
				key := fmt.Sprint("key ", i)
				r.Header.Set("X-Api-Key", key)
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, r); w.Code != 200 || w.Body.String() != key {
					t.Fatalf("%s of client %d = %d %q; want its own", r.Method, i, w.Code, w.Body)
				}
			}
		}
		if got := calls.Load() - before; got != int64(want) {
			t.Errorf("%d calls; want %d", got, want)
		}
	}
	round(clients + clients/10)
	round(0)
	r := httptest.NewRequest(http.MethodGet, "http://shop.example/a", nil)
	r.Header.Set("X-Api-Key", "key 7")
	e := h.Explain(r)
	shown := 0
	for _, s := range e.Stored {
		if s.Selected {
			shown++
		}
	}
	if shown != 1 || len(e.Stored) > 40 || !strings.Contains(strings.Join(e.Steps, "\n"), "more responses are stored") {
		t.Errorf("Explain shows %d responses, %d of them selected: %q; want the selected one, and that there are more", len(e.Stored), shown, e.Steps)
	}
	n, err := cache.Invalidate(t.Context(), "http", "shop.example", "/a")
	if err != nil || n != clients+clients/10 {
		t.Errorf("Invalidate = %d, %v; want %d, nil", n, err, clients+clients/10)
	}
	round(clients + clients/10)
}

// H2: the same with what is no field: the certificate, and what only the program knows.
func TestH2_TheProgramsIdentityKeepsClientsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Minute, UnkeyedHeaders: []string{"X-Who"}}}
		o.Identity = func(r *http.Request) string { return r.Header.Get("X-Who") }
		s := open(t, h1, o, whoAsked("X-Who"))
		for range 2 {
			s.get("/a", "X-Who", "alice").want(t, 200, `X-Who=["alice"] `)
			s.get("/a", "X-Who", "bob").want(t, 200, `X-Who=["bob"] `)
		}
		s.wantCalls(2)
	})
}

// H2: a stale window of the route is no word of the origin.
func TestH2_StaleWindowsOfTheRouteAreForEqualRequests(t *testing.T) {
	for _, control := range []string{"max-age=0", "max-age=10"} {
		synctest.Test(t, func(t *testing.T) {
			o := weirhttp.Options{Policy: weirhttp.Policy{StaleWhileRevalidate: time.Hour, StaleIfError: time.Hour}}
			down := false
			s := open(t, h1, o, func(w http.ResponseWriter, r *http.Request) {
				if down {
					w.WriteHeader(http.StatusServiceUnavailable)
					return
				}
				w.Header().Set("Cache-Control", control)
				whoAsked("X-Plan")(w, r)
			})
			s.get("/a", "X-Plan", "gold").want(t, 200, `X-Plan=["gold"] `)
			time.Sleep(20 * time.Second)
			s.get("/a").want(t, 200, "X-Plan=[] ")
			time.Sleep(20 * time.Second)
			down = true
			s.get("/a", "X-Plan", "silver").want(t, 503, "")
			s.get("/a").want(t, 200, "X-Plan=[] ")
		})
	}
}

// H9: what the policy removes cannot matter, so made-up fields do not get past the cache.
func TestH9_IgnoringEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Minute, IgnoreHeaders: []string{"*"}, Vary: []string{"X-Site"}}}
		s := open(t, h1, o, whoAsked("X-Made-Up", "X-Site", "Accept", "Traceparent", "User-Agent"))
		s.get("/a", "X-Made-Up", "1", "X-Site", "de", "Accept", "text/html", "Traceparent", "00").
			want(t, 200, `X-Made-Up=[] X-Site=["de"] Accept=["text/html"] Traceparent=["00"] User-Agent=[] `)
		s.get("/a", "X-Other", "2", "X-Site", "de")
		s.wantCalls(1)
		s.get("/a", "X-Site", "en")
		s.wantCalls(2)
	})
}

// H29: a response without Vary does not hide variants that have come to be known: a server
// may send Vary only where the field is there.
func TestH29_ADefaultDoesNotHideVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, h1, weirhttp.Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			if r.Header.Get("X-Beta") != "" {
				w.Header().Set("Vary", "X-Beta")
			}
			whoAsked("X-Beta")(w, r)
		})
		for range 3 {
			s.get("/a", "X-Beta", "1").want(t, 200, `X-Beta=["1"] `)
			s.get("/a").want(t, 200, "X-Beta=[] ")
			s.get("/a", "X-Beta", "2").want(t, 200, `X-Beta=["2"] `)
		}
		s.wantCalls(3)
		// The default first: once the field is known to matter, its absence does.
		s.get("/b").want(t, 200, "X-Beta=[] ")
		s.get("/b", "X-Other", "1").want(t, 200, "X-Beta=[] ")
		s.wantCalls(4)
	})
}

// H2: the pods of one workload of a mesh share, though each has a certificate, and other
// workloads do not. Without a SPIFFE ID, the certificate is all that tells clients apart.
func TestH2_ThePodsOfAWorkloadShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const istio, linkerd = "X-Forwarded-Client-Cert", "L5d-Client-Id"
		s := open(t, h1, weirhttp.Options{Policy: weirhttp.Policy{TTL: time.Minute}}, whoAsked(linkerd))
		certificate := func(pod int, rest string) string {
			return fmt.Sprintf("By=spiffe://cluster.local/ns/shop/sa/weir;Hash=%064x%s", pod, rest)
		}
		for pod := range 100 {
			id := fmt.Sprintf("00-%032x-%016x-01", pod, pod)
			s.get("/a", "Traceparent", id, istio, certificate(pod, `;Subject="CN=a,O=\";URI=x";URI=spiffe://cluster.local/ns/shop/sa/till`))
		}
		s.wantCalls(1)
		for pod := range 100 {
			s.get("/a", linkerd, "till.shop.serviceaccount.identity.linkerd.cluster.local", "L5d-Ctx-Trace", fmt.Sprint(pod))
		}
		s.wantCalls(2)
		s.get("/a", istio, certificate(1, ";URI=spiffe://cluster.local/ns/shop/sa/desk"))
		s.wantCalls(3)
		for pod := range 3 { // no ID, one in quotes, one of another scheme, a quote that does not end
			s.get("/a", istio, certificate(pod, ""))
			s.get("/a", istio, certificate(pod, `;Subject=";URI=spiffe://a"`))
			s.get("/a", istio, certificate(pod, ";URI=https://a.example"))
			s.get("/a", istio, certificate(pod, `;URI=spiffe://a;Subject="`))
		}
		s.wantCalls(15)
	})
}
