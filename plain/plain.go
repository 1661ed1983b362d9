// Package plain makes text from clients and origins safe to show in a terminal, a log
// or a page. Weir passes everything that it shows through this package once, where it
// leaves the program. Use it when your program shows data of the same requests, such
// as keys and URLs: [Text] or [Line] for text, [JSON] for JSON, [Logger] or [Handler]
// for logs.
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

// Text makes s safe to show. It keeps line breaks and tabs. If a client must not be
// able to start a new line of your output, use [Line].
func Text(s string) string { return WithoutUser(escape(s, true)) }

// Line is [Text] on a single line: line breaks and tabs are escaped too.
func Line(s string) string { return WithoutUser(escape(s, false)) }

// Bounded returns s cut to at most most bytes, followed by "…" if it was cut.
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
	// userinfo matches the user and password of a URL: up to the last @ before its path.
	userinfo = regexp.MustCompile(`(://)[^/?#\s"]*@`)
	// unread matches the user and password of a URL that net/url could not parse and
	// quotes verbatim in its error. It matches up to the last @, because it is unknown
	// where the password ends.
	unread = regexp.MustCompile(`(parse \\?"(?:[^"\\]|\\.)*?://)(?:[^"\\]|\\.)*@`)
	// unreadPort matches the invalid port in such an error, which can be part of a
	// password.
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

// Authority replaces the user that a client may have put before a host, with or without
// a port, by "…".
func Authority(host string) string {
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		return "…" + host[at:]
	}
	return host
}

// escape writes hidden characters as Go escape sequences.
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

// hidden reports whether r has no visible glyph, or changes how other characters are
// shown. Spaces other than the ASCII space are hidden too, because they look like it.
func hidden(r rune) bool {
	if r >= ' ' && r <= '~' {
		return false
	}
	return !unicode.IsPrint(r) || r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
