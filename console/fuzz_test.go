package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/console"
)

// No request is accepted without the token, whatever it looks like, and only a client
// that sends the token gets a cookie.
func FuzzAccess(f *testing.F) {
	f.Add("GET", "/", "localhost", "", "", "", "text/html")
	f.Add("POST", "/login", "localhost:9090", "", `{"token":"x"}`, "application/json", "")
	f.Add("POST", "/console/login", "[::1]:1", "weir-session=abc", "token=x", "application/x-www-form-urlencoded", "text/html")
	f.Add("POST", "/console/logout", "127.0.0.1", "weir-session=", "", "multipart/form-data", "*/*")
	f.Add("GET", "//x//y%2Fz/console/a:b", "localhost", "", "", "", "text/html")
	f.Add("GET", "//console//../x", "evil.example:1:2", ";", "", ";", "text/html")
	const secret = "a token that nobody guesses"
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	f.Fuzz(func(t *testing.T, method, path, host, cookie, body, kind, accept string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(u.Path, "/") || strings.Contains(body, secret) {
			return
		}
		h := console.Access{Token: secret, Base: "/console/", Logger: quiet}.Protect(inside)
		r := call{method: "GET", target: "/", body: body}.request()
		r.Method, r.URL, r.Host = method, u, host
		r.Header = http.Header{"Cookie": {cookie}, "Content-Type": {kind}, "Accept": {accept}, "Authorization": {cookie}}
		w := recorder(h, r)
		if w.Code == http.StatusTeapot {
			t.Fatalf("%s %q of host %q was accepted", method, path, host)
		}
		for _, c := range w.Result().Cookies() {
			if c.Value != "" {
				t.Errorf("%s %q: cookie %v without the token", method, path, c)
			}
		}
		dots := strings.Contains(u.EscapedPath(), "/.") // which browsers never send
		if w.Code == http.StatusSeeOther && !dots && !strings.HasPrefix(u.Path, "/console/log") {
			to, err := u.Parse(w.Header().Get("Location"))
			if err != nil || to.Path != "/console/login" || to.Host != u.Host {
				t.Errorf("%q leads to %v, %v; want the login", path, to, err)
			}
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q: %s; want JSON", method, path, w.Body)
		}
	})
}

// No request below the console makes it panic, and responses that claim to be JSON
// are JSON.
func FuzzAPI(f *testing.F) {
	f.Add("POST", "purge", `{"unit": "rows", "tags": ["a"]}`)
	f.Add("GET", "hot?unit=rows&n=7", "")
	f.Add("GET", "units/%2F..%2f", "")
	f.Add("GET", "snapshot?%zz", "")
	c := newConsole(f, console.Options{Source: &purger{}})
	f.Fuzz(func(t *testing.T, method, target, body string) {
		u, err := url.ParseRequestURI("/api/" + target)
		if err != nil {
			return
		}
		r := call{target: "/", body: body}.request()
		r.Method, r.URL = method, u
		w := recorder(c, r)
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %q: %s; want JSON", method, target, w.Body)
		}
	})
}
