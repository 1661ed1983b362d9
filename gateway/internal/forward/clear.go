package forward

import (
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/weir-go/weir/gateway/httpwire"
)

// unclear returns what is wrong with r, or "". It finds requests that net/http's
// server accepts, but that its client would refuse to send, or would send with
// another meaning. Such a request never reaches a server.
//
// Most of these are HTTP/2 requests, whose pseudo-header fields net/http does not
// validate (RFC 9113, section 8.3.1).
func unclear(r *http.Request) string {
	switch {
	case r.Method != "" && !httpwire.IsToken(r.Method):
		return "the method is not a token"
	case r.Host == "" && r.ProtoAtLeast(1, 1) && r.RequestURI != "": // an http URI has a host (RFC 9110, section 4.2.1)
		return "there is no authority"
	case r.Host != "" && !isAuthority(r.Host):
		return "the authority is not a host"
	}
	if r.ProtoMajor > 1 {
		for _, host := range r.Header["Host"] {
			if !strings.EqualFold(host, r.Host) {
				return "Host differs from the authority"
			}
		}
		if r.RequestURI != "" && r.RequestURI != "*" && r.RequestURI[0] != '/' {
			return "the path does not begin with a slash"
		}
		if !fits(r.Header["Content-Length"], r.ContentLength) {
			return "Content-Length does not match the length of the body"
		}
	}
	for i := range len(r.RequestURI) { // in a request line, a blank would end the target
		if c := r.RequestURI[i]; c <= ' ' || c == 0x7f {
			return "the target contains a byte that is not allowed in a URI"
		}
	}
	if len(r.Trailer) == 0 { // cheaper than iterating over an empty map
		return ""
	}
	for name := range r.Trailer {
		if !httpwire.IsToken(name) {
			return "Trailer lists an invalid field name"
		}
	}
	return ""
}

// fits reports whether all lengths, as received, agree with n, which net/http
// derived from them: it reads an invalid number as 0, uses the first of several
// values, and ignores all of them if the stream ends with the header section.
func fits(lengths []string, n int64) bool {
	for _, l := range lengths {
		if v, err := strconv.ParseUint(l, 10, 63); err != nil || int64(v) != n { //nolint:gosec // 63 bits
			return false
		}
	}
	return true
}

// isAuthority reports whether text is a host with an optional port, and nothing
// else (RFC 3986, section 3.2; HTTP has no userinfo).
func isAuthority(text string) bool {
	host, port := text, ""
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return false
		}
		host, port = text[1:end], text[end+1:]
		if port != "" && port[0] != ':' {
			return false
		}
		port = strings.TrimPrefix(port, ":")
		// No zone: it has a meaning only on the client's machine (RFC 6874,
		// section 4).
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Is6() || ip.Zone() != "" {
			return false
		}
	} else {
		host, port, _ = strings.Cut(text, ":")
		for i := range len(host) {
			if !inName[host[i]] {
				return false
			}
		}
		if strings.IndexByte(host, '%') >= 0 {
			if _, err := url.PathUnescape(host); err != nil {
				return false
			}
		}
	}
	for i := range len(port) {
		if port[i] < '0' || port[i] > '9' {
			return false
		}
	}
	return host != ""
}

// inName has the bytes that are allowed in a registered name (RFC 3986, section
// 3.2.2). It is a table because the Host of every request is checked.
var inName = func() (may [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=%") {
		may[c] = true
	}
	return may
}()

// sendable reports whether net/http would send the fields h. It does send fields
// that a net/http server has read.
func sendable(h http.Header) bool {
	for name, values := range h {
		if !httpwire.IsToken(name) {
			return false
		}
		for _, v := range values {
			if !httpwire.IsValue(v) {
				return false
			}
		}
	}
	return true
}

// inTrailers reports whether a field with this name, in net/http's spelling, is
// allowed in trailers. It is not if it could change the framing, the routing, the
// client's identity, the requested resource, or how the response is interpreted
// (RFC 9110, section 6.5.1).
func inTrailers(name string) bool {
	name = plain(name)
	if hopByHop(name) {
		return false
	}
	switch name {
	case "Content-Length", "Host", "Content-Encoding", "Content-Type", "Content-Range", "Content-Location",
		"Authorization", "Www-Authenticate", "Authentication-Info", "Cookie", "Set-Cookie",
		"Cache-Control", "Expect", "Max-Forwards", "Pragma", "Range",
		"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
		"Age", "Expires", "Date", "Location", "Retry-After", "Vary", "Warning",
		"Via", "Cdn-Loop", "Forwarded", "X-Real-Ip", "X-Request-Id", "Cdn-Cache-Control", "Surrogate-Control":
		return false
	}
	return !strings.HasPrefix(name, "X-Forwarded-")
}
