package console

import (
	"net/http"
	"net/url"
	"strings"
)

// below returns r with the path as it is seen from the console's own, which begins
// at base, or else at the pattern that led here. Neither is in the path where
// somebody has taken it off already.
func below(r *http.Request, base string) *http.Request {
	for _, prefix := range []string{base, patternPath(r.Pattern)} {
		prefix = strings.TrimSuffix(prefix, "/")
		if prefix == "" || !strings.HasPrefix(r.URL.Path, prefix+"/") {
			continue
		}
		return at(r, strings.TrimPrefix(r.URL.Path, prefix), strings.TrimPrefix(r.URL.RawPath, prefix))
	}
	return r
}

// patternPath returns the path that a pattern of [http.ServeMux] begins with, if
// it stands for all below that.
func patternPath(pattern string) string {
	i := strings.IndexByte(pattern, '/')
	if i < 0 {
		return ""
	}
	path, _, _ := strings.Cut(pattern[i:], "{")
	if !strings.HasSuffix(path, "/") {
		return ""
	}
	return path
}

// at returns r with another path.
func at(r *http.Request, path, raw string) *http.Request {
	to := new(http.Request)
	*to = *r
	to.URL = new(url.URL)
	*to.URL = *r.URL
	to.URL.Path, to.URL.RawPath = path, raw
	return to
}

// from returns the reference that leads from the path of a page, escaped as in its
// URL, to another one: relative, as nobody here knows what was taken off before
// both.
func from(page, to string) string {
	common := 0
	for i := 0; i < len(page) && i < len(to) && page[i] == to[i]; i++ {
		if page[i] == '/' {
			common = i + 1
		}
	}
	if up := strings.Count(page[common:], "/"); up > 0 {
		return strings.Repeat("../", up) + to[common:]
	}
	return "./" + to[common:] // or what begins with a name and a colon would be another site
}
