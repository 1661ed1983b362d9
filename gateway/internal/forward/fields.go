package forward

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// hopByHop reports whether the field of this name, as net/http spells it, is
// for the next hop only (RFC 9110, section 7.6.1).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authorization", "Proxy-Authenticate", "Proxy-Authentication-Info":
		return true
	}
	return false
}

// named returns the names of fields that Connection declares to be for the next
// hop only. Nearly always there are none.
func named(h http.Header) []string {
	var names []string
	for _, v := range h["Connection"] {
		for token := range strings.SplitSeq(v, ",") {
			token = http.CanonicalHeaderKey(strings.TrimSpace(token))
			// RFC 8586, section 2: CDN-Loop is never taken out, whatever a client says.
			if token != "" && token != "Close" && token != cdnloop.Field && !hopByHop(token) {
				names = append(names, token)
			}
		}
	}
	return names
}

// copyEndToEnd adds to dst what of src is for the other end. Values are shared,
// and never written to.
func copyEndToEnd(dst, src http.Header) {
	for name, values := range src {
		if hopByHop(name) {
			continue
		}
		if have := dst[name]; len(have) > 0 {
			dst[name] = append(have[:len(have):len(have)], values...)
			continue
		}
		dst[name] = values
	}
	for _, name := range named(src) {
		delete(dst, name)
	}
}

// hasToken reports whether one of values lists token, in any case.
func hasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// via returns our line in Via for a message that came with this version
// (RFC 9110, section 7.6.3).
func (f *Forwarder) via(major, minor int) string {
	if major == 1 && minor == 1 {
		return "1.1 " + f.name()
	}
	if major >= 2 {
		return strconv.Itoa(major) + " " + f.name()
	}
	return strconv.Itoa(major) + "." + strconv.Itoa(minor) + " " + f.name()
}

func (f *Forwarder) name() string {
	if f.Via == "" {
		return "weir"
	}
	return f.Via
}

// hasBody reports whether an answer to method has a body (RFC 9112, section 6.3).
// On HTTP/2 an empty one may have trailers.
func hasBody(resp *http.Response, method string) bool {
	return method != http.MethodHead && (resp.ContentLength != 0 || resp.ProtoMajor > 1) &&
		resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotModified
}

// closeDelimited reports whether the body ends where the connection does.
func closeDelimited(resp *http.Response, method string) bool {
	return hasBody(resp, method) && resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// endless reports whether the body may go on, and be silent, for as long as both
// ends like.
func endless(h http.Header) bool {
	v := strings.ToLower(h.Get("Content-Type"))
	return eventStream(h) || strings.HasPrefix(v, "multipart/x-mixed-replace") || strings.HasPrefix(v, "application/grpc")
}

// eventStream reports whether the body comes in pieces, each of which somebody
// waits for.
func eventStream(h http.Header) bool {
	v := h.Get("Content-Type")
	const kind = "text/event-stream"
	return len(v) >= len(kind) && strings.EqualFold(v[:len(kind)], kind)
}
