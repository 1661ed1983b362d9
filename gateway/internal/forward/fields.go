package forward

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// hopByHop reports whether the field with this name, in net/http's spelling, is
// for the next hop only (RFC 9110, section 7.6.1).
func hopByHop(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Proxy-Authorization", "Proxy-Authenticate", "Proxy-Authentication-Info":
		return true
	}
	return false
}

// plain returns name, in net/http's spelling, with "-" for "_". An origin that receives
// fields as variables cannot tell fields with the same plain name apart (RFC 3875,
// section 4.1.18).
func plain(name string) string {
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// named returns the names of the fields that Connection declares to be for the
// next hop only. Usually there are none.
func named(h http.Header) []string {
	var names []string
	for _, v := range h["Connection"] {
		for token := range strings.SplitSeq(v, ",") {
			token = http.CanonicalHeaderKey(strings.TrimSpace(token))
			// RFC 8586, section 2: CDN-Loop is never removed, even if the client
			// lists it.
			if token != "" && token != "Close" && token != cdnloop.Field && !hopByHop(token) {
				names = append(names, token)
			}
		}
	}
	return names
}

// copyEndToEnd adds to dst the end-to-end fields of src. Values are shared, and
// never written to.
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

// hasToken reports whether one of values lists token, ignoring case.
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

// via returns weir's Via entry for a message received with this version (RFC
// 9110, section 7.6.3).
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

// hasBody reports whether a response to method has a body (RFC 9112, section
// 6.3). On HTTP/2, an empty body can have trailers.
func hasBody(resp *http.Response, method string) bool {
	return method != http.MethodHead && (resp.ContentLength != 0 || resp.ProtoMajor > 1) &&
		resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotModified
}

// closeDelimited reports whether the end of the connection ends the body.
func closeDelimited(resp *http.Response, method string) bool {
	return hasBody(resp, method) && resp.ProtoMajor == 1 && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0
}

// untidy reports whether a server has sent bytes behind a response that has no body, this
// one or one of its kind before: it is passed on, but no other client gets it.
func untidy(resp *http.Response) bool {
	return resp.ProtoMajor == 1 && resp.ContentLength < 0 && (resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified)
}

// endless reports whether the body may continue, and pause, for as long as both
// ends want.
func endless(h http.Header) bool {
	v := strings.ToLower(h.Get("Content-Type"))
	return eventStream(h) || strings.HasPrefix(v, "multipart/x-mixed-replace") || strings.HasPrefix(v, "application/grpc")
}

// eventStream reports whether the client waits for each piece of the body.
func eventStream(h http.Header) bool {
	v := h.Get("Content-Type")
	const kind = "text/event-stream"
	return len(v) >= len(kind) && strings.EqualFold(v[:len(kind)], kind)
}
