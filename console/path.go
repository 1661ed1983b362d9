package console

import (
	"net/http"
	"net/url"
	"strings"
)

// below returns r with its path relative to the console, which starts at base, or
// else at the pattern that matched. If a handler in front has already removed the
// prefix, the path is unchanged.
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

// patternPath returns the path with which a pattern of [http.ServeMux] starts, if the
// pattern matches everything below it.
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

// at returns a copy of r with another path.
func at(r *http.Request, path, raw string) *http.Request {
	to := new(http.Request)
	*to = *r
	to.URL = new(url.URL)
	*to.URL = *r.URL
	to.URL.Path, to.URL.RawPath = path, raw
	return to
}

// from returns the reference from the path of a page, escaped as in its URL, to
// another path. It is relative, because the prefix that was removed from both is not
// known here.
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
	return "./" + to[common:] // without "./", a name with a colon would be taken as a URL scheme
}
