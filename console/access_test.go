package console_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/console"
)

const (
	token = "correct horse"
	local = "192.0.2.1:9090" // a network address that receives requests
)

// ok responds to accepted requests.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "in") })

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

// entrances returns the two kinds of protected handlers: an Access in front of a
// handler, and a Console.
func entrances(t *testing.T, a console.Access) map[string]http.Handler {
	a.Logger = quiet
	return map[string]http.Handler{
		"access":  a.Protect(ok),
		"console": newConsole(t, console.Options{Access: a}),
	}
}

func TestC1_UnknownHostIsRefused(t *testing.T) {
	for way, h := range entrances(t, console.Access{Token: token, Hosts: []string{"Weir.Example", "ops.example:9090"}}) {
		for host, want := range map[string]int{
			"localhost": 200, "localhost:9090": 200, "LOCALHOST.": 200, "127.0.0.1": 200, "127.9.9.9:1": 200, "[::1]:9090": 200, "[::1]": 200, "::1": 200,
			local: 200, "192.0.2.1": 200, "[::ffff:192.0.2.1]:9090": 200, "weir.example:443": 200, "ops.example": 200,
			"192.0.2.2": 403, "10.0.0.1:9090": 403, "evil.example": 403, "evil.example:9090": 403, "localhost.evil.example": 403,
			"none": 403, "127.0.0.1.evil.example": 403, "sub.weir.example": 403, "0x7f.1": 403, "2130706433": 403, "localhost:9090:1": 403,
		} {
			for _, target := range []string{"/", "/api/snapshot", "/assets/js/main.js"} {
				c := call{target: target, host: host, local: local, header: bearer(token)}
				if got := c.on(h); got.Code != want {
					t.Errorf("%s, Host %q, %s: %d %s; want %d", way, host, target, got.Code, got.Body, want)
				}
			}
			c := call{target: "/login", host: host, local: local}
			if got := c.on(h); got.Code != want {
				t.Errorf("%s, Host %q, the login: %d; want %d", way, host, got.Code, want)
			}
		}
	}
}

func TestC1_WithoutATokenLoopbackOnly(t *testing.T) {
	open := console.Access{Open: func(*http.Request) bool { return true }}
	for way, h := range entrances(t, open) {
		for address, want := range map[string]int{
			"127.0.0.1:9090": 200, "[::1]:9090": 200, "127.1.2.3:1": 200, "[::ffff:127.0.0.1]:1": 200, "none": 403,
			local: 403, "[2001:db8::1]:9090": 403, "0.0.0.0:9090": 403,
		} {
			for _, c := range []call{{target: "/", local: address}, {target: "/api/snapshot", local: address, header: bearer("any")}} {
				if got := c.on(h); got.Code != want {
					t.Errorf("%s, %s over %s: %d %s; want %d", way, c.target, address, got.Code, got.Body, want)
				}
			}
		}
	}
	for address, want := range map[string]bool{
		"127.0.0.1:9090": false, "localhost:9090": false, "[::1]:9090": false, "127.1.2.3:1": false, "[::ffff:127.0.0.1]:1": false,
		":9090": true, "0.0.0.0:9090": true, "[::]:9090": true, "10.0.0.1:9090": true, "ops.example:9090": true, "localhost.example:1": true, "9090": true,
	} {
		if got := console.NeedsToken(address); got != want {
			t.Errorf("NeedsToken(%q) = %v; want %v", address, got, want)
		}
	}
}

func TestC2_TokenAsAHeader(t *testing.T) {
	for way, h := range entrances(t, console.Access{Token: token, Open: func(r *http.Request) bool { return r.URL.Path == "/open" }}) {
		for auth, want := range map[string]int{
			"Bearer correct horse": 200, "bearer correct horse": 200, "Bearer  correct horse": 200,
			"": 401, "Bearer": 401, "Bearer ": 401, "Bearer correct": 401, "Bearer correct horses": 401, "Basic correct horse": 401, "correct horse": 401,
		} {
			for _, target := range []string{"/", "/api/snapshot", "/assets/js/main.js"} {
				c := call{target: target, local: local, host: local, header: map[string]string{"Authorization": auth}}
				got := c.on(h)
				if got.Code != want {
					t.Errorf("%s, Authorization %q, %s: %d; want %d", way, auth, target, got.Code, want)
				}
				if want == 401 && (!strings.HasPrefix(got.Header().Get("WWW-Authenticate"), "Bearer") || strings.Contains(got.Body.String(), "horse")) {
					t.Errorf("%s, %s: %v %s; want a challenge without details", way, target, got.Header(), got.Body)
				}
			}
		}
		if got := get("/open").on(h); got.Code == 401 {
			t.Errorf("%s: an open path requires a token", way)
		}
		// Tokens in URLs end up in logs, so they are never accepted there.
		for _, c := range []call{get("/?token=correct+horse"), get("/api/snapshot?token=correct+horse&access_token=correct+horse"),
			{method: "POST", target: "/login?token=correct+horse", header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}} {
			if got := c.on(h); got.Code != 401 || len(got.Result().Cookies()) > 0 {
				t.Errorf("%s, %s %s: %d; want 401", way, c.method, c.target, got.Code)
			}
		}
	}
}

// login logs in to h at prefix, as a browser does, and returns the cookie.
func login(t *testing.T, h http.Handler, prefix string) *http.Cookie {
	t.Helper()
	c := form(prefix+"login", url.Values{"token": {token}})
	got := c.on(h)
	cookies := got.Result().Cookies()
	if got.Code != 303 || got.Header().Get("Location") != "./" || len(cookies) != 1 {
		t.Fatalf("login: %d %v %s; want a cookie, and a redirect to the page", got.Code, got.Header(), got.Body)
	}
	return cookies[0]
}

func form(target string, v url.Values) call {
	return call{method: "POST", target: target, body: v.Encode(), header: map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html,*/*", "Origin": "http://localhost", "Sec-Fetch-Site": "same-origin",
	}}
}

// with returns c with a cookie.
func (c call) with(cookie *http.Cookie) call {
	h := map[string]string{"Cookie": cookie.Name + "=" + cookie.Value}
	for name, v := range c.header {
		h[name] = v
	}
	c.header = h
	return c
}

func TestC2_LoginSetsACookie(t *testing.T) {
	for way, h := range entrances(t, console.Access{Token: token}) {
		cookie := login(t, h, "/")
		if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure || cookie.MaxAge != 12*60*60 || cookie.Domain != "" || len(cookie.Value) != 43 {
			t.Errorf("%s: cookie %v; want HttpOnly, SameSite=Strict, 12 hours, this host only, and 256 bits", way, cookie)
		}
		if got := get("/").with(cookie).on(h); got.Code != 200 {
			t.Errorf("%s: with the cookie: %d %s; want 200", way, got.Code, got.Body)
		}
		for what, forged := range map[string]string{"another one": strings.Repeat("A", 43), "none": "", "the token": token, "less": cookie.Value[:42], "more": cookie.Value + "A"} {
			if got := get("/").with(&http.Cookie{Name: cookie.Name, Value: forged}).on(h); got.Code != 401 {
				t.Errorf("%s: with %s as a cookie: %d; want 401", way, what, got.Code)
			}
		}
		if again := login(t, h, "/"); again.Value == cookie.Value {
			t.Errorf("%s: two logins got the same cookie", way)
		}
		for _, c := range []call{form("/login", url.Values{"token": {"wrong"}}), form("/login", nil), form("/login", url.Values{"token": {""}})} {
			got := c.on(h)
			if got.Code != 401 || len(got.Result().Cookies()) > 0 || !strings.Contains(got.Body.String(), "Wrong token.") || !strings.Contains(got.Body.String(), "<form") {
				t.Errorf("%s: login with %q: %d %s; want 401 and the page", way, c.body, got.Code, got.Body)
			}
		}
		// As JSON, for scripts.
		got := post("/login", `{"token": "correct horse"}`).on(h)
		if got.Code != 200 || len(got.Result().Cookies()) != 1 || got.Body.String() != "{\"ok\":true}\n" {
			t.Errorf("%s: login as JSON: %d %s; want a cookie", way, got.Code, got.Body)
		}
		for body, want := range map[string]int{`{"token": "wrong"}`: 401, `{}`: 401, `{"token": 1}`: 400, `{"tokens": ""}`: 400, `x`: 400, `{"token": "` + strings.Repeat("x", 1<<17) + `"}`: 413} {
			if got := post("/login", body).on(h); got.Code != want || len(got.Result().Cookies()) > 0 {
				t.Errorf("%s: login as %.40s: %d %s; want %d", way, body, got.Code, got.Body, want)
			}
		}
		if got := form("/login", url.Values{"token": {strings.Repeat("x", 1<<17)}}).on(h); got.Code != 400 {
			t.Errorf("%s: login with too large a body: %d; want 400", way, got.Code)
		}
	}
}

// The cookie reaches what its Access protects, and no other console. Over TLS its
// name proves that no other site has set it.
func TestC2_NameAndPathOfTheCookie(t *testing.T) {
	h := entrances(t, console.Access{Token: token})
	for _, tt := range []struct{ way, host, scheme, name, path string }{
		{"access", "localhost", "http", "weir-session", "/"},
		{"access", "localhost:9090", "http", "weir-session-9090", "/"},
		{"access", "[::1]:9091", "http", "weir-session-9091", "/"},
		{"access", "localhost:9090", "https", "__Host-weir-session-9090", "/"},
		{"console", "localhost:9090", "http", "weir-session-9090", ""},
		{"console", "localhost", "https", "__Secure-weir-session", ""},
	} {
		c := post(tt.scheme+"://x/login", `{"token": "correct horse"}`)
		c.host = tt.host
		got := c.on(h[tt.way]).Result().Cookies()
		if len(got) != 1 || got[0].Name != tt.name || got[0].Path != tt.path || got[0].Secure != (tt.scheme == "https") {
			t.Errorf("%s %s://%s: %v; want %s for %q", tt.way, tt.scheme, tt.host, got, tt.name, tt.path)
		}
	}
}

func TestC2_BrowsersGetTheLogin(t *testing.T) {
	browser := map[string]string{"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
	a := console.Access{Token: token, Base: "/console/", Logger: quiet}.Protect(ok)
	c := newConsole(t, console.Options{Access: console.Access{Token: token}})
	for _, tt := range []struct {
		h            http.Handler
		target, want string
	}{
		{a, "/console/", "./login"}, {a, "/", "./console/login"}, {a, "/stats", "./console/login"}, {a, "/jobs/mail/1", "../../console/login"},
		{a, "/console/api/snapshot", "../login"}, {a, "/jobs/a%2Fb", "../console/login"}, {a, "/consoles/x", "../console/login"}, {a, "/x//y", "../../console/login"},
		{c, "/", "./login"}, {c, "/api/snapshot", "../login"},
	} {
		got := call{target: tt.target, header: browser}.on(tt.h)
		to := got.Header().Get("Location")
		if got.Code != 303 || to != tt.want {
			t.Errorf("%s: %d to %q; want 303 to %s", tt.target, got.Code, to, tt.want)
		}
	}
	for h, base := range map[http.Handler]string{a: "/console/", c: "/"} {
		got := call{target: base + "login", header: browser}.on(h)
		if got.Code != 200 || !strings.Contains(got.Body.String(), `action="login"`) || !strings.Contains(got.Body.String(), `type="password"`) {
			t.Errorf("%slogin: %d %s; want the login page", base, got.Code, got.Body)
		}
		for file, kind := range map[string]string{"assets/login.css": "text/css", "assets/icon.svg": "image/svg+xml"} {
			version := between(got.Body.String(), `href="`+file, `"`)
			if got := get(base + file + version).on(h); got.Code != 200 || !strings.HasPrefix(got.Header().Get("Content-Type"), kind) {
				t.Errorf("%s of the login page: %d %v; want 200 without a token", file, got.Code, got.Header())
			}
		}
		if got := (call{target: base + "login", header: browser}).with(login(t, h, base)).on(h); got.Code != 303 || got.Header().Get("Location") != "./" {
			t.Errorf("%slogin with a session: %d; want a redirect to the page", base, got.Code)
		}
	}
	none := console.Access{}.Protect(ok)
	for _, c := range []call{{target: "/login", header: browser}, form("/login", nil), form("/logout", nil)} {
		if got := c.on(none); got.Code != 303 || got.Header().Get("Location") != "./" || len(got.Result().Cookies()) > 0 {
			t.Errorf("%s %s without a token: %d %v; want a redirect to the login", c.method, c.target, got.Code, got.Header())
		}
	}
}

// between returns the text between a and b in s.
func between(s, a, b string) string {
	_, s, _ = strings.Cut(s, a)
	s, _, _ = strings.Cut(s, b)
	return s
}

func TestC2_LogoutAndTimeEndASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, console.Options{Access: console.Access{Token: token}, Interval: time.Minute, History: time.Hour})
		client := serve(t, &http.Server{Handler: c})
		first, second := login(t, c, "/"), login(t, c, "/")
		a, b := listen(t, client, eventsURL, first), listen(t, client, eventsURL, second)
		if !a.hello.Features.Login {
			t.Error("the hello of a logged-in client has Login false")
		}
		out := form("/logout", nil).with(first).on(c)
		if cookies := out.Result().Cookies(); out.Code != 303 || len(cookies) != 1 || cookies[0].MaxAge >= 0 || cookies[0].Value != "" {
			t.Errorf("logout: %d %v; want the cookie deleted", out.Code, out.Header())
		}
		if !a.ended() {
			t.Error("the stream of an ended session broke off; want a clean end")
		}
		if got := get("/").with(first).on(c); got.Code != 401 {
			t.Errorf("after the logout: %d; want 401", got.Code)
		}
		if got := get("/").with(second).on(c); got.Code != 200 {
			t.Errorf("another session after the logout: %d; want 200", got.Code)
		}
		began := time.Now()
		b.ended()
		if got := time.Since(began); got != console.SessionLifetime {
			t.Errorf("the other session's stream ended after %v; want %v", got, console.SessionLifetime)
		}
		if got := get("/").with(second).on(c); got.Code != 401 {
			t.Errorf("after %v: %d; want 401", console.SessionLifetime, got.Code)
		}
	})
}

func TestC2_SessionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := console.Access{Token: token, Logger: quiet}.Protect(ok)
		var all []*http.Cookie
		for range console.MaxSessions + 2 {
			all = append(all, login(t, h, "/"))
			time.Sleep(time.Second)
		}
		for i, cookie := range all {
			want := 200
			if i < 2 {
				want = 401 // the oldest was replaced
			}
			if got := get("/").with(cookie).on(h); got.Code != want {
				t.Errorf("session %d: %d; want %d", i, got.Code, want)
			}
		}
	})
}

func TestC2_TriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const evil, other = "192.0.2.66:1", "192.0.2.7:1"
		h := console.Access{Token: token, Logger: quiet}.Protect(ok)
		wrong := []call{
			{target: "/", header: bearer("wrong")},
			post("/login", `{"token": "wrong"}`),
			form("/login", url.Values{"token": {"wrong"}}),
		}
		try := func(c call, from string) *httptest.ResponseRecorder {
			c.client = from
			return c.on(h)
		}
		for i := range 100 {
			if got := try(wrong[i%3], evil); got.Code != 401 {
				t.Fatalf("try %d: %d; want 401", i, got.Code)
			}
		}
		for _, c := range append(wrong, call{target: "/", header: bearer(token)}, form("/login", url.Values{"token": {token}})) {
			if got := try(c, evil); got.Code != 429 || got.Header().Get("Retry-After") != "1" || len(got.Result().Cookies()) > 0 {
				t.Errorf("another try, %s: %d, Retry-After %q; want 429 and 1, with the right or a wrong token", c.body, got.Code, got.Header().Get("Retry-After"))
			}
		}
		for range 1000 { // a client with the token is not limited
			if got := try(call{target: "/", header: bearer(token)}, other); got.Code != 200 {
				t.Fatalf("another client: %d; want 200", got.Code)
			}
		}
		time.Sleep(time.Second)
		if got := try(wrong[0], evil); got.Code != 401 {
			t.Errorf("a second later: %d; want 401", got.Code)
		}
		if got := try(wrong[0], evil); got.Code != 429 {
			t.Errorf("another try: %d; want 429", got.Code)
		}
	})
}

// The right token is accepted even while another client at the same address, as
// behind one SNAT, keeps sending wrong ones. The wrong ones are still limited. This
// applies to tokens that cannot be guessed: of at least LongToken bytes.
func TestC2_OthersWrongTokensLockNobodyOut(t *testing.T) {
	for _, test := range []struct {
		token string
		want  int
	}{
		{strings.Repeat("x", console.LongToken), 200},
		{strings.Repeat("x", console.LongToken-1), 429},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := console.Access{Token: test.token, Logger: quiet}.Protect(ok)
			wrong := map[int]int{}
			for i := range 500 {
				wrong[call{target: "/", header: bearer(fmt.Sprint("wrong", i))}.on(h).Code]++
				wrong[post("/login", `{"token": "wrong"}`).on(h).Code]++
			}
			if wrong[401] != 100 || wrong[429] != 900 {
				t.Errorf("a token of %d bytes: responses to wrong tokens are %v; want 100 times 401, and 429", len(test.token), wrong)
			}
			for range 3 {
				if got := (call{target: "/", header: bearer(test.token)}).on(h); got.Code != test.want {
					t.Errorf("the right token of %d bytes in the header: %d; want %d", len(test.token), got.Code, test.want)
				}
			}
			in := post("/login", fmt.Sprintf(`{"token": %q}`, test.token)).on(h)
			if in.Code != test.want || (len(in.Result().Cookies()) > 0) != (test.want == 200) {
				t.Errorf("the right token of %d bytes at the login: %d, %d cookies; want %d", len(test.token), in.Code, len(in.Result().Cookies()), test.want)
			}
			if got := (call{target: "/", header: bearer("wrong")}).on(h); got.Code != 429 {
				t.Errorf("a wrong token after that: %d; want 429", got.Code)
			}
		})
	}
}

// Many failed logins do not fill the log.
func TestC2_TriesAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		h := console.Access{Token: token, Logger: slog.New(slog.NewTextHandler(&log, nil))}.Protect(ok)
		for range 3 {
			for range 500 {
				form("/login", url.Values{"token": {"wrong"}}).on(h)
			}
			time.Sleep(time.Second)
		}
		if n := strings.Count(log.String(), "too many wrong tokens"); n != 3 {
			t.Errorf("%d lines about too many tries in three seconds; want 3", n)
		}
		if strings.Contains(log.String(), "token=") || strings.Count(log.String(), "a wrong token") > 102 {
			t.Errorf("the log is %.300s…, with %d lines; want no token, and at most one line per compared try", log.String(), strings.Count(log.String(), "\n"))
		}
	})
}

// Trying from many addresses does not help, and does not use memory for all of them.
func TestC2_TriesFromEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := console.Access{Token: token, Logger: quiet}.Protect(ok)
		tried := map[int]int{}
		for i := range 1000 {
			for _, from := range []string{"10.1.%d.%d:1", "[2001:db8:0:1::%x:%x]:1"} { // all addresses of the latter are one network
				c := call{target: "/", header: bearer("wrong"), client: fmt.Sprintf(from, i/256, i%256)}
				tried[c.on(h).Code]++
			}
		}
		// 255 IPv4 clients and the IPv6 network are counted separately, and the rest
		// together.
		if tried[401] != 255+100+100 || tried[429] != 2000-tried[401] {
			t.Errorf("responses %v; want 455 compared tries", tried)
		}
		time.Sleep(100 * time.Second) // all have been quiet for long enough
		c := call{target: "/", header: bearer(token), client: "10.9.9.9:1"}
		if got := c.on(h); got.Code != 200 {
			t.Errorf("later: %d; want 200", got.Code)
		}
	})
}

// A reload creates a new Access. A session survives it, unless the token changes:
// then it ends when the new Access is in use.
func TestC2_SessionsSurviveAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sessions := console.NewSessions()
		access := func(token string) http.Handler {
			return console.Access{Token: token, Sessions: sessions, Logger: quiet}.Protect(ok)
		}
		in := func(what string, h http.Handler, cookie *http.Cookie, want int) {
			t.Helper()
			if got := get("/").with(cookie).on(h); got.Code != want {
				t.Errorf("%s: %d; want %d", what, got.Code, want)
			}
		}
		before := access(token)
		cookie := login(t, before, "/")
		same := access(token)
		in("after a reload that changes nothing", same, cookie, 200)
		in("at the old one, that ends its requests", before, cookie, 200)
		_ = access("something else") // of an invalid configuration that never came into effect
		in("after a reload that failed", same, cookie, 200)

		changed := access("battery staple")
		in("with another token", changed, cookie, 401)
		in("at the old one, from then on", same, cookie, 401)
		c := form("/login", url.Values{"token": {token}})
		if got := c.on(same); got.Code != 503 || len(got.Result().Cookies()) > 0 {
			t.Errorf("a login with the old token: %d; want 503", got.Code)
		}
		back := access(token)
		in("with the old token again", back, cookie, 401)
		in("after a login there", back, login(t, back, "/"), 200)
	})
}

func TestC3_OtherSitesPagesAreRefused(t *testing.T) {
	for way, h := range entrances(t, console.Access{}) {
		for _, tt := range []struct {
			header map[string]string
			want   int
		}{
			{nil, 200}, // curl
			{map[string]string{"Sec-Fetch-Site": "same-origin"}, 200},
			{map[string]string{"Sec-Fetch-Site": "none"}, 200},
			{map[string]string{"Origin": "http://localhost"}, 200},
			{map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
			{map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
			{map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image", "Accept": "image/*"}, 403},
			{map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe", "Accept": "text/html"}, 403},
			{map[string]string{"Origin": "http://evil.example"}, 403},
			{map[string]string{"Origin": "null"}, 403},
		} {
			for _, c := range []call{get("/api/snapshot"), get("/"), {method: "POST", target: "/api/explain"}} {
				c.header = tt.header
				got := c.on(h)
				if (got.Code == 403) != (tt.want == 403) {
					t.Errorf("%s, %v, %s %s: %d %s; want %d", way, tt.header, c.method, c.target, got.Code, got.Body, tt.want)
				}
			}
		}
		link := map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Accept": "text/html"}
		if got := (call{target: "/", header: link}).on(h); got.Code != 200 {
			t.Errorf("%s: a link on another site: %d; want 200", way, got.Code)
		}
		for _, target := range []string{"/api/snapshot", "/events", "/api/explain", "/assets/icon.svg", "//", "/login/x"} {
			if got := (call{target: target, header: link}).on(h); got.Code != 403 {
				t.Errorf("%s: a link on another site to %s: %d; want 403", way, target, got.Code)
			}
		}
		if got := (call{method: "POST", target: "/", header: link}).on(h); got.Code != 403 {
			t.Errorf("%s: a form on another site: %d; want 403", way, got.Code)
		}
	}
	h := console.Access{Token: token, Logger: quiet}.Protect(ok)
	c := form("/login", url.Values{"token": {token}})
	c.header["Origin"], c.header["Sec-Fetch-Site"] = "http://evil.example", "cross-site"
	if got := c.on(h); got.Code != 403 || len(got.Result().Cookies()) > 0 {
		t.Errorf("a login from another site's page: %d; want 403", got.Code)
	}
}

func TestC3_HeadersOfAllAnswers(t *testing.T) {
	want := map[string]string{
		"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control":                "no-store",
	}
	c := newConsole(t, console.Options{Access: console.Access{Token: token}})
	for what, h := range map[string]http.Handler{"console": c, "bare": c.Bare(), "access": console.Access{Token: token, Logger: quiet}.Protect(ok)} {
		for _, r := range []call{{target: "/", header: bearer(token)}, {target: "/api/snapshot", header: bearer(token)}, {target: "/api/nothing", header: bearer(token)}, get("/login"), get("/api/snapshot"), {target: "/", host: "evil.example"}} {
			got := r.on(h).Header()
			for name, value := range want {
				if got.Get(name) != value {
					t.Errorf("%s, %s: %s is %q; want %q", what, r.target, name, got.Get(name), value)
				}
			}
			if got.Get("Permissions-Policy") == "" || got.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s, %s: %v; want a Permissions-Policy, and nothing allowed to others", what, r.target, got)
			}
		}
	}
}
