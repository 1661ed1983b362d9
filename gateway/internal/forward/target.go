package forward

import (
	"net/http"
	"net/url"
	"strings"
)

// targetPath returns the path of r's target as received: without the query, and
// without the scheme and host of the absolute form. ok is false if r has no
// target that can be forwarded (RFC 9112, section 3.2).
func targetPath(r *http.Request) (path string, ok bool) {
	target := r.RequestURI
	path, _, _ = strings.Cut(target, "?")
	if strings.Contains(target, "#") {
		return "", false
	}
	switch {
	case path == "*" && len(path) == len(target):
		return path, r.Method == http.MethodOptions
	case strings.HasPrefix(path, "//"):
		return path, sanePath(path)
	case strings.HasPrefix(path, "/"):
		return path, true
	}
	scheme, rest, found := strings.Cut(path, "://")
	if !found || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", false
	}
	slash := strings.IndexByte(rest, '/')
	authority := rest
	if slash >= 0 {
		authority, path = rest[:slash], rest[slash:]
	} else if path = "/"; r.Method == http.MethodOptions && !strings.Contains(target, "?") {
		path = "*"
	}
	if authority == "" || strings.Contains(authority, "@") {
		return "", false
	}
	return path, !strings.HasPrefix(path, "//") || sanePath(path)
}

// sanePath reports whether net/url writes path unchanged.
func sanePath(path string) bool {
	u := url.URL{Path: unescape(path), RawPath: path}
	return u.EscapedPath() == path
}

func unescape(path string) string {
	s, err := url.PathUnescape(path)
	if err != nil {
		return ""
	}
	return s
}
