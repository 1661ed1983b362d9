package weirhttp

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/internal/responses"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// copyFields sets the fields of src in dst, or adds them, see adds. Both share the
// slices, which are never changed.
func copyFields(dst, src http.Header) {
	for k, v := range src {
		if v = v[:len(v):len(v)]; adds(k) {
			addField(dst, k, v)
			continue
		}
		dst[k] = v
	}
}

// adds reports whether the values of a response's field are added to those that a
// handler in front of us has set, as they would be without us: middleware for CORS adds
// to Vary, and one for sessions sets a cookie. Other fields of the response replace those
// in front.
func adds(name string) bool { return name == "Vary" || name == "Set-Cookie" }

// addField adds values to a field of dst. It may be called twice for one response.
func addField(dst http.Header, name string, values []string) {
	have := dst[name]
	if len(have) == 0 {
		dst[name] = values
		return
	}
	if n := len(have) - len(values); n < 0 || !slices.Equal(have[n:], values) {
		dst[name] = append(have[:len(have):len(have)], values...)
	}
}

// canonicalFields returns a copy of h with canonical names, under which the cache
// looks up fields. A handler that writes "set-cookie" into the map still means that
// field.
func canonicalFields(h http.Header) http.Header {
	out := h.Clone()
	if out == nil {
		return make(http.Header)
	}
	for name, values := range h {
		if c := http.CanonicalHeaderKey(name); c != name {
			delete(out, name)
			out[c] = append(out[c], values...)
		}
	}
	return out
}

// isCanonical reports whether all names in h are canonical.
func isCanonical(h http.Header) bool {
	for name := range h {
		if http.CanonicalHeaderKey(name) != name {
			return false
		}
	}
	return true
}

// relayed returns h, the fields of a response, without the fields of the connection
// that it came on. A response that came over one of our connections has none; a
// response of a handler may.
func relayed(h http.Header) http.Header {
	delete(h, "Transfer-Encoding")
	delete(h, "Keep-Alive")
	for _, name := range list(h["Connection"]) {
		delete(h, name)
	}
	delete(h, "Connection")
	return h
}

// endToEnd returns r without the fields that its Connection names (RFC 9110 section
// 7.6.1): they are not forwarded, so they must not affect any decision. For the
// requests that clients usually send it returns r itself.
func endToEnd(r *http.Request) *http.Request {
	lines := r.Header["Connection"]
	if len(lines) == 0 || len(lines) == 1 && (lines[0] == "keep-alive" || lines[0] == "close") {
		return r
	}
	out := r
	for _, name := range list(lines) {
		if _, ok := r.Header[name]; !ok || name == "Upgrade" || name == "Connection" || name == cdnloop.Field {
			continue
		}
		if out == r {
			out = r.Clone(r.Context())
		}
		// RFC 9110 section 10.1.4: a sender of TE must name it in Connection, so that
		// it is not forwarded. But "trailers" is true of us as well, because we relay
		// them.
		if name == "Te" && slices.Contains(list(r.Header["Te"]), "Trailers") {
			out.Header["Te"] = []string{"trailers"}
			continue
		}
		delete(out.Header, name)
	}
	return out
}

// list returns the names in the lines of a field, canonical.
func list(lines []string) []string {
	var names []string
	for _, line := range lines {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name)); name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// writeEarly writes a 1xx response.
func writeEarly(w http.ResponseWriter, r *http.Request, status int, h http.Header) {
	if !r.ProtoAtLeast(1, 1) {
		return // RFC 9110 section 15.2
	}
	dst := w.Header()
	before := make(http.Header, len(h))
	for k, v := range h {
		before[k] = dst[k]
		dst[k] = v
	}
	w.WriteHeader(status)
	for k, v := range before { // they do not belong to the final response
		if v == nil {
			delete(dst, k)
		} else {
			dst[k] = v
		}
	}
}

// announced returns the names in Trailer, canonical.
func announced(h http.Header) []string { return list(h["Trailer"]) }

func cutTrailerPrefix(k string) (string, bool) {
	name, ok := strings.CutPrefix(k, http.TrailerPrefix)
	return textproto.CanonicalMIMEHeaderKey(name), ok
}

// copyTrailers sets the trailers of a response whose header fields were head. For
// trailers that head did not announce, the headers must have been sent already.
func copyTrailers(w http.ResponseWriter, head, trailers http.Header) {
	if len(trailers) == 0 {
		return
	}
	known := map[string]bool{}
	for _, name := range announced(head) {
		known[name] = true
	}
	dst, sent := w.Header(), false
	for k, v := range trailers {
		if !known[k] {
			k = http.TrailerPrefix + k
			if !sent {
				sent = true
				_ = http.NewResponseController(w).Flush() // without a Flush there are no such trailers
			}
		}
		dst[k] = v
	}
}

// target returns path and query of r as they are forwarded: as the client wrote them,
// unless a handler in front of us has changed the URL. A request of a client has
// nothing but its URL, and in an opaque one Path is empty.
func target(r *http.Request) string {
	if r.RequestURI == "" || r.URL.Opaque != "" {
		return r.URL.RequestURI()
	}
	raw := originForm(r.RequestURI)
	path, query, asked := strings.Cut(raw, "?")
	escaped := r.URL.Path
	if r.URL.RawPath != "" {
		// Code that rewrites Path may leave RawPath unchanged. As everywhere, RawPath
		// counts only if it encodes the same path.
		if p, err := url.PathUnescape(r.URL.RawPath); err == nil && p == escaped {
			escaped = r.URL.RawPath
		}
	}
	if path == escaped && query == r.URL.RawQuery && asked == (query != "" || r.URL.ForceQuery) {
		return raw
	}
	return r.URL.RequestURI()
}

// originForm returns a target without the scheme and the authority of the absolute
// form (RFC 9112 section 3.2.2), which are not forwarded. A target without a path is
// unchanged.
func originForm(target string) string {
	if strings.HasPrefix(target, "/") {
		return target
	}
	_, rest, _ := strings.Cut(target, "://")
	if i := strings.IndexAny(rest, "/?"); i >= 0 && rest[i] == '/' {
		return rest[i:]
	}
	return target
}

// cloned returns a copy of k with new strings, because a key that is kept for long
// must not pin a request's buffers.
func cloned(k responses.Key) responses.Key {
	return responses.Key{Scheme: strings.Clone(k.Scheme), Host: strings.Clone(k.Host), Target: strings.Clone(k.Target), Body: k.Body}
}
