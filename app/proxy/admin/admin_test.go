package admin_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// A fake gateway notes the requests it should explain.
type fake struct {
	asked *http.Request
	cache *weirhttp.Cache
}

func newFake(t *testing.T) *fake {
	t.Helper()
	c, err := weirhttp.NewCache(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return &fake{cache: c}
}

func (f *fake) Stats() gateway.Stats   { return gateway.Stats{Unrouted: 42} }
func (f *fake) Cache() *weirhttp.Cache { return f.cache }
func (f *fake) Invalidate(ctx context.Context, scheme, host, target string) (int, error) {
	return f.cache.Invalidate(ctx, scheme, host, target)
}
func (f *fake) Expire(ctx context.Context, scheme, host, target string) (int, error) {
	return f.cache.Expire(ctx, scheme, host, target)
}
func (f *fake) Explain(r *http.Request) (string, weirhttp.Explanation) {
	f.asked = r
	return "shop", weirhttp.Explanation{Method: r.Method, Answer: "hit"}
}

// local is an address that requests come to in these tests.
const local = "192.0.2.1:9090"

// A call is a request to the admin listener, on loopback if nothing else is said.
type call struct {
	method, target, host, body, local string
	header                            map[string]string
}

func (c call) on(h http.Handler) *httptest.ResponseRecorder {
	r := httptest.NewRequest(c.method, c.target, strings.NewReader(c.body))
	addr, _ := net.ResolveTCPAddr("tcp", cmp.Or(c.local, "127.0.0.1:9090"))
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
	if r.Host = "localhost"; c.host != "" {
		r.Host = strings.TrimPrefix(c.host, "none")
	}
	for name, v := range c.header {
		r.Header.Set(name, v)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(target string) call { return call{method: "GET", target: target} }

func post(target, body string) call { return call{method: "POST", target: target, body: body} }

func TestH20_UnknownHostIsRefused(t *testing.T) {
	h := admin.New(newFake(t), admin.Options{Token: "correct horse", Hosts: []string{"Weir.Example", "ops.example:9090"}})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:9090": 200, "LOCALHOST.": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:9090": 200, "[::1]": 200, "::1": 200,
		local: 200, "192.0.2.1": 200, "[::ffff:192.0.2.1]:9090": 200, "weir.example:443": 200, "ops.example": 200,
		"192.0.2.2": 403, "10.0.0.1:9090": 403, "evil.example": 403, "evil.example:9090": 403, "localhost.evil.example": 403,
		"none": 403, "127.0.0.1.evil.example": 403, "sub.weir.example": 403, "0x7f.1": 403, "2130706433": 403, "localhost:9090:1": 403,
	} {
		for _, target := range []string{"/stats", "/healthz", "/readyz", "/"} {
			c := get(target)
			c.host, c.local = host, local
			c.header = map[string]string{"Authorization": "Bearer correct horse"}
			if got := c.on(h); got.Code != want {
				t.Errorf("Host %q, %s: %d %s; want %d", host, target, got.Code, got.Body, want)
			}
		}
	}
}

// Without a token nobody is answered whose connection has come over a network,
// whatever the listener's address: not even probes.
func TestH20_WithoutATokenLoopbackOnly(t *testing.T) {
	h := admin.New(newFake(t), admin.Options{})
	for address, want := range map[string]int{"127.0.0.1:9090": 200, "[::1]:9090": 200, local: 403, "[2001:db8::1]:9090": 403} {
		for _, target := range []string{"/stats", "/healthz"} {
			c := get(target)
			c.local = address
			if got := c.on(h); got.Code != want {
				t.Errorf("%s over %s: %d %s; want %d", target, address, got.Code, got.Body, want)
			}
		}
	}
}

func TestH20_TokenIsAskedForEverywhereButByProbes(t *testing.T) {
	h := admin.New(newFake(t), admin.Options{Token: "correct horse"})
	for auth, want := range map[string]int{
		"Bearer correct horse": 200, "bearer correct horse": 200, "Bearer  correct horse": 200,
		"": 401, "Bearer": 401, "Bearer ": 401, "Bearer correct": 401, "Bearer correct horses": 401, "Basic correct horse": 401, "correct horse": 401,
	} {
		for _, c := range []call{get("/stats"), get("/"), get("/explain?url=http://a/"), get("/debug/pprof/"), post("/purge", `{"all": true}`), get("/nothing")} {
			c.header = map[string]string{"Authorization": auth}
			got := c.on(h)
			if c.target == "/nothing" && want == 200 {
				continue // 404
			}
			if got.Code != want {
				t.Errorf("Authorization %q, %s: %d; want %d", auth, c.target, got.Code, want)
			}
			if want == 401 && (!strings.HasPrefix(got.Header().Get("WWW-Authenticate"), "Bearer") || strings.Contains(got.Body.String(), "horse")) {
				t.Errorf("%s: %v %s; want a challenge that tells nothing", c.target, got.Header(), got.Body)
			}
		}
	}
	for _, target := range []string{"/healthz", "/readyz"} {
		if got := get(target).on(h); got.Code != 200 {
			t.Errorf("%s without a token: %d; want 200", target, got.Code)
		}
		if got := post(target, "").on(h); got.Code != 401 {
			t.Errorf("POST %s without a token: %d; want 401", target, got.Code)
		}
	}
}

func TestH20_OtherSitesPagesAreRefused(t *testing.T) {
	f := newFake(t)
	h := admin.New(f, admin.Options{})
	for _, tt := range []struct {
		header map[string]string
		want   int
	}{
		{nil, 200}, // curl
		{map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
		{map[string]string{"Origin": "http://localhost"}, 200},
		{map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		{map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		{map[string]string{"Origin": "http://evil.example"}, 403},
		{map[string]string{"Origin": "null"}, 403},
	} {
		for _, c := range []call{post("/purge", `{"tags": ["a"]}`), post("/explain", `{"url": "http://a.example/"}`)} {
			c.header = tt.header
			if got := c.on(h); got.Code != tt.want {
				t.Errorf("%v to %s: %d %s; want %d", tt.header, c.target, got.Code, got.Body, tt.want)
			}
		}
	}
}

// H20: a page cannot make a browser take a profile, or read anything, by a navigation.
func TestH20_OtherSitesLinkToTheConsoleOnly(t *testing.T) {
	h := admin.New(newFake(t), admin.Options{Console: http.NotFoundHandler()})
	link := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}
	for target, want := range map[string]int{
		"/": 302, "/console": 307, "/console/": 404, "/console/login": 303,
		"/debug/pprof/": 403, "/debug/pprof/profile?seconds=30": 403, "/debug/pprof/trace": 403, "/debug/pprof/heap": 403,
		"/stats": 403, "/explain?url=http://a.example/": 403, "/metrics": 403, "/jobs": 403, "/healthz": 403, "/nothing": 403,
	} {
		if got := (call{method: "GET", target: target, header: link}).on(h); got.Code != want {
			t.Errorf("a link on another site to %s: %d; want %d", target, got.Code, want)
		}
	}
}

func TestH20_MethodsAndPaths(t *testing.T) {
	h := admin.New(newFake(t), admin.Options{})
	for _, tt := range []struct {
		method, target string
		want           int
	}{
		{"GET", "/", 200}, {"HEAD", "/stats", 200}, {"GET", "/nothing", 404}, {"GET", "/purge", 405}, {"PURGE", "/purge", 405}, {"DELETE", "/stats", 405},
		{"POST", "/stats", 405}, {"PUT", "/purge", 405}, {"CONNECT", "/stats", 405}, {"OPTIONS", "/purge", 405},
		{"GET", "/debug/pprof/", 200}, {"GET", "/debug/pprof/heap", 200}, {"GET", "/debug/pprof/cmdline", 404}, {"POST", "/debug/pprof/heap", 405},
	} {
		got := call{method: tt.method, target: tt.target}.on(h)
		if got.Code != tt.want {
			t.Errorf("%s %s: %d; want %d", tt.method, tt.target, got.Code, tt.want)
		}
		if got.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: Cache-Control %q; want no-store", tt.method, tt.target, got.Header().Get("Cache-Control"))
		}
	}
}

func TestReadiness(t *testing.T) {
	var reason error
	h := admin.New(newFake(t), admin.Options{Ready: func() error { return reason }})
	if got := get("/readyz").on(h); got.Code != 200 || got.Body.String() != "ready\n" {
		t.Errorf("ready: %d %q; want 200", got.Code, got.Body)
	}
	reason = errors.New("draining")
	if got := get("/readyz").on(h); got.Code != 503 || got.Body.String() != "not ready: draining\n" {
		t.Errorf("draining: %d %q; want 503 and why", got.Code, got.Body)
	}
	if got := get("/healthz").on(h); got.Code != 200 || got.Body.String() != "ok\n" {
		t.Errorf("health while draining: %d %q; want 200", got.Code, got.Body)
	}
}

func TestStats(t *testing.T) {
	h := admin.New(newFake(t), admin.Options{Token: "s3cret", Process: func() any { return map[string]int{"pid": 7} }})
	c := get("/stats")
	c.header = map[string]string{"Authorization": "Bearer s3cret"}
	got := c.on(h)
	var v struct {
		Unrouted int
		Process  struct{ PID int }
	}
	if err := json.Unmarshal(got.Body.Bytes(), &v); err != nil || v.Unrouted != 42 || v.Process.PID != 7 || got.Header().Get("Content-Type") != "application/json" {
		t.Errorf("stats = %s, %v; want the gateway's and the process's", got.Body, err)
	}
	if strings.Contains(got.Body.String(), "s3cret") {
		t.Error("the stats tell the token")
	}
}

func TestH12_PurgeOrders(t *testing.T) {
	var logged bytes.Buffer
	h := admin.New(newFake(t), admin.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	for _, tt := range []struct {
		body string
		code int
		want string
	}{
		{`{"url": "http://shop.example/a?b=c"}`, 200, `"responses": 0`},
		{`{"url": "https://shop.example", "expire": true}`, 200, `"expire": true`},
		{`{"tags": ["a", "b"]}`, 200, `"tags": 2`},
		{`{"all": true}`, 200, `"responses": 0`},
		{`{}`, 400, `want one of`},
		{`{"url": "http://a/", "all": true}`, 400, `want one of`},
		{`{"tags": []}`, 400, `want one of`},
		{`{"tags": [""]}`, 400, `a tag is empty`},
		{`{"tags": "a"}`, 400, `a list of strings, such as [`},
		{`{"tags": {"a": 1}}`, 400, `a list of strings, such as [`},
		{`{"tags": 7}`, 400, `a list of strings, such as [`},
		{`{"url": ["http://a/"]}`, 400, `a string`},
		{`{"all": "yes"}`, 400, `true or false`},
		{`[]`, 400, `an object`},
		{`{"all": true, "expire": true}`, 200, `"expire": true`},
		{`{"url": "/a"}`, 400, `want http://host/path`},
		{`{"url": "ftp://a/"}`, 400, `want http://host/path`},
		{`{"url": "http://me:pw@a/"}`, 400, `names a user`},
		{`{"url": "http://a/%zz"}`, 400, `url:`},
		{`{"urls": "http://a/"}`, 400, `is no field; there are url, tags, all, expire`},
		{`{"all": true} {"all": true}`, 400, `more than one value`},
		{`all`, 400, `the body`},
		{``, 400, `the body`},
		{`{"tags": ["` + strings.Repeat("x", 1<<20) + `"]}`, 413, `too large`},
	} {
		logged.Reset()
		got := post("/purge", tt.body).on(h)
		if got.Code != tt.code || !strings.Contains(got.Body.String(), tt.want) {
			t.Errorf("purge %.60s: %d %s; want %d, %s", tt.body, got.Code, got.Body, tt.code, tt.want)
		}
		for _, of := range []string{"[]string", "map[", "cannot unmarshal", "admin.", "struct", "json:"} {
			if tt.code == 400 && strings.Contains(got.Body.String(), of) {
				t.Errorf("purge %.60s: %s; want nothing of Go's, such as %s", tt.body, got.Body, of)
			}
		}
		if (tt.code == 200) != strings.Contains(logged.String(), "msg=purged") {
			t.Errorf("purge %.60s logged %q; want a line for what was done", tt.body, logged.String())
		}
	}
}

func TestExplain(t *testing.T) {
	f := newFake(t)
	h := admin.New(f, admin.Options{})
	for _, tt := range []struct {
		c    call
		want string // method, TLS, Host, RequestURI, Accept
	}{
		{get("/explain?url=http%3A%2F%2Fa.example%2Fx%3Fy%3D1%23f"), "GET false a.example /x?y=1 []"},
		{get("/explain?method=HEAD&url=https://a.example"), "HEAD true a.example / []"},
		{post("/explain", `{"url": "https://a.example:8443/%2F", "method": "PUT", "headers": {"accept": "a"}}`), "PUT true a.example:8443 /%2F [a]"},
		{post("/explain", `{"url": "http://a.example/", "headers": {"Accept": ["a", "b"], "host": "b.example"}}`), "GET false b.example / [a b]"},
	} {
		got := tt.c.on(h)
		if got.Code != 200 || !strings.Contains(got.Body.String(), `"route": "shop"`) || !strings.Contains(got.Body.String(), `"answer": "hit"`) {
			t.Errorf("%s: %d %s; want the explanation", tt.c.target, got.Code, got.Body)
			continue
		}
		r := f.asked
		if is := strings.Join([]string{r.Method, map[bool]string{true: "true", false: "false"}[r.TLS != nil], r.Host, r.RequestURI, "[" + strings.Join(r.Header["Accept"], " ") + "]"}, " "); is != tt.want {
			t.Errorf("%s %s asked for %s; want %s", tt.c.target, tt.c.body, is, tt.want)
		}
	}
	for _, c := range []call{get("/explain"), get("/explain?url=/x"), get("/explain?url=http://a/&method=a%20b"), post("/explain", `{"url": "http://a/", "headers": {"a": 1}}`)} {
		if got := c.on(h); got.Code != 400 || !strings.Contains(got.Body.String(), `"error"`) {
			t.Errorf("%s %s: %d %s; want 400 and why", c.target, c.body, got.Code, got.Body)
		}
	}
}

// Whatever is posted, the answer is JSON, and no panic.
func FuzzOrders(f *testing.F) {
	f.Add(`{"url": "http://a/"}`)
	f.Add(`{"tags": ["a"], "expire": true}`)
	f.Add(`{"url": "https://[::1]:x", "headers": {"a": ["b"]}}`)
	c, err := weirhttp.NewCache(1 << 20)
	if err != nil {
		f.Fatal(err)
	}
	h := admin.New(&fake{cache: c}, admin.Options{Logger: slog.New(slog.DiscardHandler)})
	f.Fuzz(func(t *testing.T, body string) {
		for _, target := range []string{"/purge", "/explain"} {
			if got := post(target, body).on(h); !json.Valid(got.Body.Bytes()) {
				t.Errorf("%s %q: %s; want JSON", target, body, got.Body)
			}
		}
	})
}

// A purge that does not reach the other instances says so, and is done here.
func TestH12_PurgeTellsWhetherItReachedTheFleet(t *testing.T) {
	engine := fleettest.NewFaults(fleet.NewMemory(fleet.MemoryOptions{}))
	f := newFake(t)
	if err := f.cache.JoinFleet(weirhttp.FleetOptions{Config: fleet.Config{Tier: fleet.WithBreaker(engine, fleet.BreakerOptions{})}}); err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	h := admin.New(f, admin.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	orders := []string{`{"url": "http://shop.example/"}`, `{"tags": ["a"]}`, `{"all": true}`}
	for _, order := range orders {
		if got := post("/purge", order).on(h); got.Code != 200 || !strings.Contains(got.Body.String(), `"fleet": "purged"`) {
			t.Errorf("purge %s: %d %s; want 200", order, got.Code, got.Body)
		}
	}
	engine.Cut()
	for _, order := range orders {
		logged.Reset()
		got := post("/purge", order).on(h)
		if got.Code != 503 || !strings.Contains(got.Body.String(), `"fleet": "not reached"`) || !strings.Contains(got.Body.String(), "purged here") {
			t.Errorf("purge %s without the engine: %d %s; want 503, and that it was done here", order, got.Code, got.Body)
		}
		if !strings.Contains(logged.String(), "has not reached the fleet") {
			t.Errorf("purge %s logged %q", order, logged.String())
		}
	}
}
