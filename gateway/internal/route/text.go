package route

import (
	"net/http"
	"net/netip"
	"strings"
)

// maxHost is the maximum length of a host (RFC 1035, section 2.3.4).
const maxHost = 253

// bare removes the port from the host of a request, and the trailing dot of an absolute
// name.
func bare(host string) string {
	if strings.HasPrefix(host, "[") { // an IPv6 address
		if i := strings.IndexByte(host, ']'); i >= 0 {
			return host[:i+1]
		}
		return host
	}
	if i := strings.IndexByte(host, ':'); i >= 0 {
		host = host[:i]
	}
	return strings.TrimSuffix(host, ".")
}

// lower writes s, at most maxHost bytes, into buf in lower case.
func lower(s string, buf *[maxHost + 1]byte) []byte {
	b := buf[:len(s)]
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		b[i] = c
	}
	return b
}

// Path returns the escaped path of a request as the client sent it and as it is forwarded,
// not as net/url rewrites it. An empty path is "/"; the "*" of OPTIONS is under "/" but not
// equal to it. It allocates nothing for a request received by a server.
func Path(r *http.Request) string {
	path, _, asks := strings.Cut(r.RequestURI, "?")
	if strings.HasPrefix(path, "/") || path == "*" {
		return path
	}
	if path == "" {
		path = r.URL.EscapedPath() // not a request that a server received
	} else {
		_, rest, _ := strings.Cut(path, "://") // in absolute form
		if i := strings.IndexByte(rest, '/'); i >= 0 {
			return rest[i:]
		}
		if path = ""; r.Method == http.MethodOptions && !asks {
			path = "*" // RFC 9112, section 3.2.4
		}
	}
	if path == "" {
		return "/"
	}
	return path
}

// plain returns path with its escapes in normal form, as RFC 9110 (section 4.2.3) compares
// paths: unreserved characters (letters, digits, "-", ".", "_", "~") decoded, other escapes
// in capitals. An encoded slash stays encoded, so it does not separate segments.
func plain(path string) string {
	if strings.IndexByte(path, '%') < 0 {
		return path
	}
	var b strings.Builder
	b.Grow(len(path))
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) && isHex(path[i+1]) && isHex(path[i+2]) {
			if c = unhex(path[i+1])<<4 | unhex(path[i+2]); unreserved(c) {
				b.WriteByte(c)
			} else {
				b.WriteString(strings.ToUpper(path[i : i+3]))
			}
			i += 2
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&0xf + 9
}

func unreserved(c byte) bool {
	return alphanumeric(c) || strings.IndexByte("-._~", c) >= 0
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// ValidHost reports whether h can be the host of a Rule: a name, "*." and a
// name, an IPv4 address, or an IPv6 address in brackets. Names are ASCII.
func ValidHost(h string) bool {
	if strings.HasPrefix(h, "[") && strings.HasSuffix(h, "]") {
		a, err := netip.ParseAddr(h[1 : len(h)-1])
		return err == nil && a.Is6() && a.Zone() == ""
	}
	h = strings.TrimPrefix(h, "*.")
	if len(h) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			if c := label[i]; !alphanumeric(c) && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// ValidPath reports whether p can be the path of a Rule: escaped as in a
// request, from its first slash on, without a query.
func ValidPath(p string) bool {
	p = strings.TrimPrefix(p, "=")
	if !strings.HasPrefix(p, "/") {
		return false
	}
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '%':
			if i+2 >= len(p) || !isHex(p[i+1]) || !isHex(p[i+2]) {
				return false
			}
			i += 2
		case !unreserved(c) && strings.IndexByte("/!$&'()*+,;=:@", c) < 0:
			return false
		}
	}
	return true
}
