package httpwire

import (
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// A Fields writes the fields of headers, as http.Header.WriteSubset does. That spends most of
// its time on sorting, but the names are mostly the same as in the header before, which a
// Fields remembers. The zero Fields is ready for use, by one goroutine at a time.
type Fields struct {
	names []string // of the latest header, sorted
}

// Write writes the fields of h, sorted by name, except for those in without. A name that is
// not a token is left out, and prefixed reports whether one of these has http.TrailerPrefix.
// A line break in a value becomes a space.
func (f *Fields) Write(out io.StringWriter, h http.Header, without map[string]bool) (prefixed bool) {
	for _, name := range f.names {
		if _, ok := h[name]; !ok {
			f.names = f.names[:0]
			break
		}
	}
	if len(f.names) != len(h) {
		f.names = slices.AppendSeq(f.names[:0], maps.Keys(h))
		slices.Sort(f.names)
	}
	for _, name := range f.names {
		if without[name] {
			continue
		}
		if !token(name) {
			prefixed = prefixed || strings.HasPrefix(name, http.TrailerPrefix)
			continue
		}
		for _, value := range h[name] {
			WriteField(out, name, value)
		}
	}
	return prefixed
}

// WriteField writes one field. It ignores errors of out, which has to keep them.
func WriteField(out io.StringWriter, name, value string) {
	if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
		value = oneLine.Replace(value)
	}
	for _, s := range [...]string{name, ": ", textproto.TrimString(value), "\r\n"} {
		_, _ = out.WriteString(s)
	}
}

var oneLine = strings.NewReplacer("\n", " ", "\r", " ")

// token reports whether s is a token (RFC 9110, section 5.6.2).
func token(s string) bool {
	for i := range len(s) {
		if !isToken[s[i]] {
			return false
		}
	}
	return s != ""
}
