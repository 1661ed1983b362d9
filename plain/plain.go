// Package plain makes text from clients and origins safe to show in a terminal, a log
// or a page. Weir passes everything that it shows through this package once, where it
// leaves the program. Use it for what your program shows of the same requests, such as
// keys and URLs: [Text] or [Line] for text, [JSON] for JSON, [Logger] or [Handler] for
// logs.
//
// The functions escape characters that are hidden or change how other text is shown,
// and never drop them: control characters (with C1, among them U+009B, which begins
// terminal sequences), bidirectional controls, characters without a width or a glyph,
// line separators, tags, and bytes that are not UTF-8. They remove the user and password
// of URLs. Passing text through twice changes nothing. Which characters count as hidden
// follows the Unicode tables of the Go release.
//
// All functions are safe for concurrent use.
package plain

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s for people. The ends of its lines, and tabs, are kept: where they would
// let a stranger begin a line of ours, use [Line].
func Text(s string) string { return WithoutUser(escape(s, true)) }

// Line is [Text] in one line.
func Line(s string) string { return WithoutUser(escape(s, false)) }

// Bounded is s with at most so many bytes, and "…" where some were left out.
func Bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	s = s[:most]
	for i := 0; i < utf8.UTFMax && len(s) > 0; i++ { // not in the middle of a character
		if r, n := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || n != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s + "…"
}

var (
	// userinfo is that of a URL: up to the last @ before its path.
	userinfo = regexp.MustCompile(`(://)[^/?#\s"]*@`)
	// unread is that of a URL that net/url could not read, and quotes as it is: nobody
	// knows where its user ends.
	unread = regexp.MustCompile(`(parse \\?"(?:[^"\\]|\\.)*?://)(?:[^"\\]|\\.)*@`)
	// unreadPort is what net/url takes for a port there, and may be a part of a password.
	unreadPort = regexp.MustCompile(`(invalid port) \\?"(?:[^"\\]|\\[^"])*\\?"( after host)`)
)

// WithoutUser returns s without the user and password of the URLs in it.
func WithoutUser(s string) string {
	if !strings.Contains(s, "://") || !strings.Contains(s, "@") {
		return s
	}
	if unread.MatchString(s) {
		s = unreadPort.ReplaceAllString(unread.ReplaceAllString(s, "$1…@"), "$1$2")
	}
	return userinfo.ReplaceAllString(s, "$1…@")
}

// Authority returns a host, which may have a port, without the user that a client has
// put before it.
func Authority(host string) string {
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		return "…" + host[at:]
	}
	return host
}

// escape writes what is hidden as Go writes it in a string.
func escape(s string, lines bool) string {
	i := 0
	for i < len(s) && s[i] >= ' ' && s[i] <= '~' {
		i++
	}
	if i == len(s) {
		return s
	}
	b := make([]byte, 0, len(s)+16)
	b = append(b, s[:i]...)
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, `\x`...)
			b = strconv.AppendUint(b, uint64(s[i]), 16)
		case lines && (r == '\n' || r == '\t'), !hidden(r):
			b = append(b, s[i:i+size]...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return string(b)
}

// hidden reports whether r has no picture of its own, or changes how others are shown.
// Blanks other than the one of ASCII are hidden too: they look like it.
func hidden(r rune) bool {
	if r >= ' ' && r <= '~' {
		return false
	}
	return !unicode.IsPrint(r) || r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
