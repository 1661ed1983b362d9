// Package plaintest has samples of every kind of hidden text, for tests of code that
// shows text to people.
package plaintest

import (
	"fmt"
	"unicode/utf8"
)

// A Kind is one kind of characters that must not be shown verbatim.
type Kind struct {
	Name   string
	Hidden string // as a client sends it
	Shown  string // as package plain shows it
}

// Kinds lists all kinds.
var Kinds = []Kind{
	{"C0", "\x1b", `\x1b`},
	{"delete", "\x7f", `\x7f`},
	{"C1", "\u009b", `\u009b`},
	{"next line", "\u0085", `\u0085`},
	{"embedding", "\u202a", `\u202a`},
	{"override", "\u202e", `\u202e`},
	{"isolate", "\u2066", `\u2066`},
	{"end of isolate", "\u2069", `\u2069`},
	{"left-to-right mark", "\u200e", `\u200e`},
	{"right-to-left mark", "\u200f", `\u200f`},
	{"Arabic letter mark", "\u061c", `\u061c`},
	{"no width", "\u200b", `\u200b`},
	{"joiner", "\u200d", `\u200d`},
	{"word joiner", "\u2060", `\u2060`},
	{"byte order mark", "\ufeff", `\ufeff`},
	{"soft hyphen", "\u00ad", `\u00ad`},
	{"line separator", "\u2028", `\u2028`},
	{"paragraph separator", "\u2029", `\u2029`},
	{"tag", "\U000e0041", `\U000e0041`},
	{"variation selector", "\ufe0f", `\ufe0f`},
	{"supplementary selector", "\U000e0101", `\U000e0101`},
	{"filler", "\u3164", `\u3164`},
	{"blank pattern", "\u2800", `\u2800`},
	{"private use", "\ue000", `\ue000`},
	{"invalid byte", "\xff", `\xff`},
	{"half of a character", "\xe2\x80", `\xe2\x80`},
	{"surrogate", "\xed\xa0\x80", `\xed\xa0\x80`},
}

// Find describes the first hidden character in shown, apart from line breaks and tabs.
// It returns "" if there is none.
func Find(shown string) string {
	for i, r := range shown {
		switch {
		case r == '\n' || r == '\t':
		case r == utf8.RuneError && shown[i] >= 0x80 && shown[i] != 0xef:
			return fmt.Sprintf("the byte %#x at %d", shown[i], i)
		case r < ' ', r >= 0x7f && r < 0xa0, r == 0xad, r == 0x61c, r >= 0x200b && r <= 0x200f, r == 0x2028, r == 0x2029,
			r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0x2800, r == 0x3164, r >= 0xe000 && r <= 0xf8ff,
			r >= 0xfe00 && r <= 0xfe0f, r == 0xfeff, r >= 0xe0000 && r <= 0xe0fff:
			return fmt.Sprintf("%U at %d", r, i)
		}
	}
	return ""
}
