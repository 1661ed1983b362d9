package access

import (
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/weir-go/weir/plain"
)

// lineBuffers pools *[]byte, so that a line costs no allocation.
var lineBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// combined writes a line in Apache's combined format:
//
//	client - - [time] "method target proto" status bytes "referer" "user agent"
//
// Text from clients is escaped as in Apache, so no client can forge a line.
func (l *Log) combined(w *writer, r *http.Request) {
	p := lineBuffers.Get().(*[]byte)
	b := (*p)[:0]
	b = appendEscaped(b, l.o.Client(r))
	b = append(b, " - - ["...)
	b = w.start.AppendFormat(b, "02/Jan/2006:15:04:05 -0700")
	b = append(b, `] "`...)
	if w.method == "" {
		b = append(b, '-') // the request could not be read
	} else {
		b = appendEscaped(b, w.method)
		b = append(b, ' ')
		b = appendEscaped(b, l.target(w.target))
		b = append(b, ' ')
		b = appendEscaped(b, r.Proto)
	}
	b = append(b, `" `...)
	b = appendNumber(b, int64(w.status))
	b = append(b, ' ')
	b = appendNumber(b, w.bytes)
	b = append(b, ` "`...)
	if l.o.NoQuery {
		b = append(b, '-') // a Referer may contain a query of this site
	} else {
		b = appendField(b, l.referer(r.Header.Get("Referer")))
	}
	b = append(b, `" "`...)
	b = appendField(b, plain.WithoutUser(r.Header.Get("User-Agent")))
	b = append(b, '"', '\n')
	_, _ = l.o.Out.Write(b) // an Output reports a failure
	*p = b
	lineBuffers.Put(p)
}

// referer is like target, for a URL that may lack a scheme.
func (l *Log) referer(s string) string {
	if rest, ok := strings.CutPrefix(s, "//"); ok {
		return strings.TrimPrefix(l.target("any://"+rest), "any:")
	}
	return l.target(s)
}

// appendNumber appends n, or "-" for none, like Apache.
func appendNumber(b []byte, n int64) []byte {
	if n == 0 {
		return append(b, '-')
	}
	return strconv.AppendInt(b, n, 10)
}

// appendField appends a field, or "-" if it was not sent.
func appendField(b []byte, s string) []byte {
	if s == "" {
		return append(b, '-')
	}
	return appendEscaped(b, s)
}

// appendEscaped appends s with quotes and backslashes escaped by a backslash,
// the usual control characters by their letter, and every other byte that is
// not printable ASCII as \xhh.
func appendEscaped(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ' || c >= 0x7f:
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return b
}
