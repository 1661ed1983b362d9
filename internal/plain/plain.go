// Package plain makes what strangers sent fit for a terminal, a log, a page and the
// eyes of people. Whatever weir shows passes here once, where it leaves the program:
// text by [Text] or [Line], JSON by [JSON], a log by [Logger].
//
// What is hidden, or changes how other text is shown, is escaped and never left out:
// control characters (C1 too, among them U+009B, which begins sequences of terminals),
// directions of writing, characters without a width or without a picture, separators of
// lines, tags, and bytes that are no UTF-8. The user and password of URLs are left out.
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

// Address returns a URL or an address that somebody has configured without its user, who
// may have anything in it, such as a slash that belongs to a password.
func Address(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return s
	}
	if scheme, _, ok := strings.Cut(s[:at], "://"); ok {
		return scheme + "://…" + s[at:]
	}
	return "…" + s[at:]
}

// Target returns the target of a request without the user of an absolute form, or of
// the authority form of CONNECT.
func Target(t string) string {
	if strings.HasPrefix(t, "/") || !strings.Contains(t, "@") {
		return t
	}
	scheme, rest, absolute := strings.Cut(t, "://")
	if !absolute {
		scheme, rest = "", t
	} else {
		scheme += "://"
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return scheme + Authority(rest[:end]) + rest[end:]
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
		case lines && (r == '\n' || r == '\t'), !Hidden(r):
			b = append(b, s[i:i+size]...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b = append(b, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return string(b)
}

// Hidden reports whether r has no picture of its own, or changes how others are shown.
// Blanks other than the one of ASCII are hidden too: they look like it.
func Hidden(r rune) bool {
	if r >= ' ' && r <= '~' {
		return false
	}
	return !unicode.IsPrint(r) || r == '\u2800' || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
