package listen

import (
	"bytes"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// A plainRequest is a request that is served without net/http: GET or HEAD over HTTP/1.1,
// with a path, one Host, and no body. Its strings are substrings of its header section.
type plainRequest struct {
	method, target, host string
	url                  url.URL
	header               http.Header
	size                 int // of the header section, in bytes
}

// readPlain reads the request at the start of p. It returns false unless p contains the
// complete header and the header is unambiguous: HTTP/1.1, GET or HEAD, a path, one Host,
// fields of visible ASCII characters, and no field that changes what a server does with
// the connection or the body. All other requests are left to net/http.
func readPlain(p []byte, most int) (r plainRequest, ok bool) {
	if len(p) < 4 || p[0] != 'G' && p[0] != 'H' {
		return r, false
	}
	end := bytes.Index(p, []byte("\r\n\r\n"))
	if end < 0 || most > 0 && end+4 > most {
		return r, false
	}
	line, rest, _ := strings.Cut(string(p[:end]), "\r\n")
	r.method, line, _ = strings.Cut(line, " ")
	target, proto, _ := strings.Cut(line, " ")
	if r.method != http.MethodGet && r.method != http.MethodHead || proto != "HTTP/1.1" ||
		target == "" || target[0] != '/' || !visible(target) {
		return r, false
	}
	if !parseTarget(&r.url, target) {
		return r, false
	}
	r.target, r.size = target, end+4
	return r, r.fields(rest) && r.host != ""
}

// fields reads the lines of fields. It returns false if r is not plain.
func (r *plainRequest) fields(rest string) bool {
	count := strings.Count(rest, "\r\n") + 1
	r.header = make(http.Header, count)
	values := make([]string, 0, count)
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		if !ok || !token(name) {
			return false
		}
		name, value = textproto.CanonicalMIMEHeaderKey(name), strings.Trim(value, " \t")
		if !field(value) {
			return false
		}
		switch name {
		case "Host":
			if r.host != "" || !host(value) {
				return false
			}
			r.host = value
			continue
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") || r.header[name] != nil {
				return false
			}
		case "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Expect", "Upgrade", "Http2-Settings",
			"Range", "If-Range", "Keep-Alive", "Proxy-Connection", "Pragma":
			// Pragma: net/http turns it into Cache-Control.
			return false
		}
		if old := r.header[name]; old != nil {
			r.header[name] = append(old, value)
			continue
		}
		values = append(values, value)
		r.header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	return true
}

// blank is a request without anything.
var blank http.Request

// request sets and returns the request in f, as net/http would.
func (r *plainRequest) request(f *fastRequest) *http.Request {
	own := &f.http
	*own, f.url = *blank.WithContext(&f.ctx), r.url
	own.Method, own.URL, own.RequestURI = r.method, &f.url, r.target
	own.Proto, own.ProtoMajor, own.ProtoMinor = "HTTP/1.1", 1, 1
	own.Header, own.Host, own.Body = r.header, r.host, http.NoBody
	return own
}

// parseTarget sets u to what url.ParseRequestURI returns for a target that begins with a slash
// and is visible. It reports false if that is an error.
func parseTarget(u *url.URL, target string) bool {
	path, query, asked := strings.Cut(target, "?")
	if !literal(path) {
		parsed, err := url.ParseRequestURI(target)
		if err == nil {
			*u = *parsed
		}
		return err == nil
	}
	*u = url.URL{Path: path, RawQuery: query, ForceQuery: asked && query == ""}
	return true
}

// literal reports whether a path has only bytes that are not escaped in a path.
func literal(path string) bool {
	for i := range len(path) {
		if c := path[i]; !alphanumeric(c) && strings.IndexByte("/-._~$&+,:;=@", c) < 0 {
			return false
		}
	}
	return true
}

// visible reports whether s contains only visible ASCII characters, and no fragment.
func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f || s[i] == '#' {
			return false
		}
	}
	return true
}

// field reports whether s contains only visible ASCII characters, spaces and tabs.
func field(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// token reports whether s is a token (RFC 9110, section 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		if !tokenByte[s[i]] {
			return false
		}
	}
	return s != ""
}

// host reports whether s is a name or an IPv4 address, with or without a port. net/http
// decides about everything else.
func host(s string) bool {
	for i := range len(s) {
		if c := s[i]; !alphanumeric(c) && c != '.' && c != '-' && c != ':' {
			return false
		}
	}
	return s != ""
}

func alphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
}

var tokenByte = func() (t [256]bool) {
	for c := range t {
		t[c] = alphanumeric(byte(c)) || c < 0x7f && strings.IndexByte("!#$%&'*+-.^_`|~", byte(c)) >= 0
	}
	return t
}()
