package forward_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/gateway/internal/forward"
)

var escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// For any Host, method and path of a client, the forwarded request has one
// request line and one Host, which every recipient reads in the same way.
func FuzzReject(f *testing.F) {
	for _, s := range []string{"h.test", "h.test:80", "[::1]:8080", "me@h.test", "h.test/x", "h%zz", "::1", "h\"t", "", "[::1", "h.test, b"} {
		f.Add("GET", s, "/a")
	}
	for _, s := range []string{"/a b", "/a\x00", "*", "a", "http://h.test/a", "//a", "/a#b"} {
		f.Add("GET", "h.test", s)
	}
	f.Add("GET /x", "h.test", "/a")
	f.Fuzz(func(t *testing.T, method, host, target string) {
		if method == "" || target == "" {
			return // not a server's request
		}
		r := &http.Request{Method: method, Host: host, RequestURI: target, URL: &url.URL{Path: "/"}, Header: http.Header{}, Proto: "HTTP/2.0", ProtoMajor: 2, Body: http.NoBody}
		if forward.Reject(httptest.NewRecorder(), r) {
			return
		}
		if strings.ContainsAny(method, " \t\r\n\x00:\"(),/") {
			t.Errorf("the method %q is forwarded", method)
		}
		if target[0] != '/' && target != "*" || strings.ContainsFunc(target, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' }) {
			t.Errorf("the target %q is forwarded", target)
		}
		// net/url accepts fewer escapes in a host than RFC 3986 (section 3.2.2)
		// allows.
		u, err := url.Parse("http://" + escaped.ReplaceAllString(host, "x") + "/")
		if err != nil || u.User != nil || u.Path != "/" || u.RawQuery != "" || u.Hostname() == "" {
			t.Errorf("the Host %q is forwarded, which is parsed as %+v, %v", host, u, err)
		}
	})
}
