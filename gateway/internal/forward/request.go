package forward

import (
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// request returns the request to send to the server, and the protocols that it
// offers to switch to. Its URL is nil if the path cannot be mapped.
func (x *relay) request() (out *http.Request, upgrade []string) {
	r := x.r
	trusted := x.f.Trusted != nil && x.f.Trusted(r)
	upgrade = upgradeOf(r)
	out = &x.out
	*out = *(&http.Request{
		Method:     r.Method,
		URL:        x.f.outgoingURL(&x.url, r),
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     x.f.requestHeader(&x.one, r, trusted, upgrade),
		Host:       r.Host,
		RemoteAddr: r.RemoteAddr, // tells the clients apart where a server is chosen
	}).WithContext(x)
	if host := x.f.SetRequest.Get("Host"); host != "" {
		out.Host = host
		delete(out.Header, "Host")
	}
	if r.ContentLength == 0 || r.Body == nil || r.Body == http.NoBody {
		return out, upgrade
	}
	out.ContentLength, out.TransferEncoding = r.ContentLength, r.TransferEncoding
	if weirhttp.BodyIsRead(r) {
		out.Body = r.Body // no longer tied to the client's connection
		if b, ok := r.Body.(interface {
			io.ReaderAt
			Size() int64
		}); ok {
			out.GetBody = func() (io.ReadCloser, error) {
				return io.NopCloser(io.NewSectionReader(b, 0, b.Size())), nil
			}
		}
		return out, upgrade
	}
	if r.ContentLength < 0 {
		// Not nil, so that unannounced trailers can be added.
		out.Trailer = make(http.Header, len(r.Trailer))
		for name := range r.Trailer {
			if x.f.sendsTrailer(name) {
				out.Trailer[name] = nil
			}
		}
	}
	x.up = newUpload(x, out.Trailer, r.ProtoAtLeast(1, 1) && hasToken(r.Header["Expect"], "100-continue"))
	out.Body = x.up
	if r.ProtoMajor == 1 {
		// The response can arrive while the body is still being sent.
		x.rc.EnableFullDuplex()
	}
	return out, upgrade
}

// singles has room for the values of fields that have one, which are most.
type singles struct {
	room [4]string
	n    int
}

// of returns the list of v.
func (s *singles) of(v string) []string {
	if s.n == len(s.room) {
		return []string{v}
	}
	s.n++
	s.room[s.n-1] = v
	return s.room[s.n-1 : s.n : s.n]
}

// requestHeader returns the fields of r as they are sent, some of them in one.
func (f *Forwarder) requestHeader(one *singles, r *http.Request, trusted bool, upgrade []string) http.Header {
	h := make(http.Header, len(r.Header)+8)
	copyEndToEnd(h, r.Header)
	delete(h, "Host") // HTTP/2 could have it in addition to the authority
	if v, ok := h["Expect"]; ok {
		// With its usual name, net/http would handle it itself: see upload.
		delete(h, "Expect")
		h["expect"] = v
	}
	if hasToken(r.Header["Te"], "trailers") {
		h["Te"] = []string{"trailers"}
	}
	if upgrade != nil {
		h["Connection"], h["Upgrade"] = []string{"Upgrade"}, upgrade
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = nil // otherwise net/http sends its own
	}
	if via := f.via(r.ProtoMajor, r.ProtoMinor); len(h["Via"]) > 0 {
		h["Via"] = append(slices.Clip(h["Via"]), via)
	} else {
		h["Via"] = one.of(via)
	}
	setForwarded(one, h, r, trusted, f.HidesAddress)
	if f.Path.Strip != "" {
		outer := slices.Clip(h["X-Forwarded-Prefix"]) // of trusted proxies
		h["X-Forwarded-Prefix"] = []string{strings.Join(append(outer, f.Path.Strip), ", ")}
	}
	if id, made := weirhttp.RequestID(h, RequestID); made { // no Handler is in front, or the field is of the connection
		h[RequestID] = []string{id}
	}
	for name := range h {
		if strings.IndexByte(name, '_') >= 0 && f.changes(plain(name)) {
			delete(h, name)
		}
	}
	for _, name := range f.RemoveRequest {
		h.Del(name)
	}
	for name, values := range f.SetRequest {
		h[http.CanonicalHeaderKey(name)] = values
	}
	if f.LoopID != "" {
		h[cdnloop.Field] = cdnloop.Add(h, f.LoopID)
	}
	return h
}

// changes reports whether f removes or sets a request field with this plain name.
func (f *Forwarder) changes(name string) bool {
	for _, n := range f.RemoveRequest {
		if plain(http.CanonicalHeaderKey(n)) == name {
			return true
		}
	}
	for n := range f.SetRequest {
		if plain(http.CanonicalHeaderKey(n)) == name {
			return true
		}
	}
	return false
}

// sendsTrailer reports whether a request trailer with this name is sent. One that f
// removes or sets is not: servers may merge trailers into the header.
func (f *Forwarder) sendsTrailer(name string) bool {
	return inTrailers(name) && !f.changes(plain(name)) && !(f.DropUnderscores && hasUnderscore(name))
}

// DropForwarded returns r without the fields about the client that are not
// forwarded. A cache in front of a Forwarder needs it to compare what the servers
// get. With underscores set, it drops all fields with an underscore, too. It does not change
// r, and returns r itself if there is nothing to drop; then it allocates nothing. trusted is as
// in Forwarder.
func DropForwarded(r *http.Request, trusted func(*http.Request) bool, underscores bool) *http.Request {
	out, asked, isTrusted := r, false, false
	for name := range r.Header {
		if !underscores || !hasUnderscore(name) {
			if !describesClient(name) {
				continue
			}
			if !asked {
				asked, isTrusted = true, trusted != nil && trusted(r)
			}
			if !drops(name, isTrusted) {
				continue
			}
		}
		if out == r {
			own := *r
			own.Header = maps.Clone(r.Header)
			out = &own
		}
		delete(out.Header, name)
	}
	return out
}

var addressFields = func() map[string]bool {
	set := make(map[string]bool)
	for _, name := range weirhttp.AddressFields() {
		set[name] = true
	}
	return set
}()

// describesClient reports whether the field name describes the client: Forwarded,
// X-Forwarded-*, or one of those that have its address, perhaps with "_" for "-".
func describesClient(name string) bool {
	const forwarded, prefix = "forwarded", "x-forwarded-"
	if len(name) < len(forwarded) {
		return false
	}
	if addressFields[name] || hasUnderscore(name) && addressFields[plain(name)] {
		return true
	}
	switch name[0] | 0x20 {
	case 'f':
		return strings.EqualFold(name, forwarded)
	case 'x':
		if len(name) < len(prefix) {
			return false
		}
		for i := range len(prefix) {
			if c := name[i]; c|0x20 != prefix[i] && (c != '_' || prefix[i] != '-') {
				return false
			}
		}
		return true
	}
	return false
}

// drops reports whether the field name, which describes the client, is dropped: from
// an untrusted peer always, and with "_" instead of "-" even from a trusted one. An
// origin that receives fields as variables (RFC 3875, section 4.1.18) cannot tell
// them apart, and a trusted proxy may pass one through unknowingly.
func drops(name string, trusted bool) bool {
	return !trusted || hasUnderscore(name)
}

func hasUnderscore(name string) bool { return strings.IndexByte(name, '_') >= 0 }

// setForwarded sets the fields that describe the client; its address only if that is not
// hidden.
func setForwarded(one *singles, h http.Header, r *http.Request, trusted, hidden bool) {
	for name := range h {
		if describesClient(name) && drops(name, trusted) {
			delete(h, name)
		}
	}
	if peer, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && !hidden {
		chain := strings.Join(append(slices.Clip(h["X-Forwarded-For"]), peer), ", ")
		h["X-Forwarded-For"] = one.of(chain)
		if v, ok := h["Forwarded"]; ok {
			node := peer
			if strings.Contains(peer, ":") {
				node = `"[` + peer + `]"`
			}
			h["Forwarded"] = []string{strings.Join(append(slices.Clip(v), "for="+node), ", ")}
		}
	}
	if _, ok := h["X-Forwarded-Proto"]; !ok {
		proto := "http"
		if r.TLS != nil {
			proto = "https"
		}
		h["X-Forwarded-Proto"] = one.of(proto)
	}
	if _, ok := h["X-Forwarded-Host"]; !ok && r.Host != "" {
		h["X-Forwarded-Host"] = one.of(r.Host)
	}
}

// RequestID is the field with the ID of a request.
const RequestID = "X-Request-Id"

// UnmappedText tells a client that its path cannot be mapped to one of the servers.
const UnmappedText = "this spelling of the path cannot be forwarded"

// Maps reports whether the path of r, which a server has received, can be mapped.
func (p Path) Maps(r *http.Request) bool {
	path, ok := targetPath(r)
	if !ok {
		path = r.URL.EscapedPath() // not a server's request
	}
	rest, ok := p.rest(path)
	if ok && p.Base == "" && p.Strip != "" && strings.HasPrefix(rest, "//") {
		return sanePath(rest) // as in targetPath
	}
	return ok
}

// outgoingURL sets and returns u, a URL that net/http writes as the target of r, byte for
// byte, in origin form, or nil if Path cannot map the path. The path is that of the
// request line. The query is that of r.URL, from which a cache may have removed
// parameters.
//
// The scheme and host are the client's; RoundTrip replaces them.
func (f *Forwarder) outgoingURL(u *url.URL, r *http.Request) *url.URL {
	*u = url.URL{Scheme: "http", Host: r.Host, RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	if r.TLS != nil {
		u.Scheme = "https"
	}
	if !f.Path.Maps(r) {
		return nil
	}
	path, ok := targetPath(r)
	if !ok {
		path = r.URL.EscapedPath() // not a server's request
	}
	path, _ = f.Path.Of(path)
	if strings.HasPrefix(path, "//") {
		// net/http would parse such an opaque part as a host. It writes these
		// paths unchanged: see sanePath.
		u.Path, u.RawPath = unescape(path), path
		return u
	}
	u.Opaque = path
	return u
}
