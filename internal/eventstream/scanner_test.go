package eventstream_test

import (
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/eventstream"
)

// A stream is the same however its bytes arrive, and whatever its line ends are (H33).
func TestH33_TheTerminalEventIsRecognized(t *testing.T) {
	done := eventstream.Rules{End: "[DONE]", EndType: "stop"}
	for name, row := range map[string]struct {
		stream                    string
		ended, between, unusually bool // unusually: the line ends are part of the row
	}{
		"last":                        {"data: a\n\ndata: [DONE]\n\n", true, true, false},
		"alone":                       {"data: [DONE]\n\n", true, true, false},
		"without the blank":           {"data:[DONE]\n\n", true, true, false},
		"with another blank":          {"data:  [DONE]\n\n", false, true, false},
		"by type":                     {"data: a\n\nevent: stop\ndata: {}\n\n", true, true, false},
		"by type, after the data":     {"data: {}\nevent: stop\n\n", true, true, false},
		"the last type counts":        {"event: stop\nevent: more\ndata: x\n\n", false, true, false},
		"a type without data":         {"data: a\n\nevent: stop\n\n", false, true, false},
		"a type with empty data":      {"event: stop\ndata\n\n", true, true, false},
		"no blank line":               {"data: a\n\ndata: [DONE]\n", false, false, false},
		"no line end":                 {"data: a\n\ndata: [DONE]", false, false, false},
		"cut in the middle":           {"data: a\n\ndata: [DO", false, false, false},
		"missing":                     {"data: a\n\n", false, true, false},
		"another event after it":      {"data: [DONE]\n\ndata: b\n\n", false, true, false},
		"the beginning of another":    {"data: [DONE]\n\ndata: b", false, false, false},
		"a type begun after it":       {"data: [DONE]\n\nevent: b\n", false, false, false},
		"a comment after it":          {"data: [DONE]\n\n: bye\n\n", true, true, false},
		"an id after it":              {"data: [DONE]\n\nid: 5\n\n", true, true, false},
		"twice":                       {"data: [DONE]\n\ndata: [DONE]\n\n", true, true, false},
		"in one event with more":      {"data: [DONE]\ndata: b\n\n", false, true, false},
		"split over lines":            {"data: [DO\ndata: NE]\n\n", false, true, false},
		"longer":                      {"data: [DONE]x\n\n", false, true, false},
		"shorter":                     {"data: [DONE\n\n", false, true, false},
		"in a comment":                {": data: [DONE]\n\n", false, true, false},
		"another field":               {"dat: [DONE]\ndataa: [DONE]\n\n", false, true, false},
		"case counts":                 {"Data: [DONE]\n\n", false, true, false},
		"a blank before the colon":    {"data : [DONE]\n\n", false, true, false},
		"an endless type":             {"event: stop" + strings.Repeat("p", 10000) + "\ndata: x\n\n", false, true, false},
		"endless data":                {"data: " + strings.Repeat("[DONE]", 100000) + "\n\n", false, true, false},
		"empty":                       {"", false, true, false},
		"a mark at the beginning":     {"\xef\xbb\xbfdata: [DONE]\n\n", true, true, false},
		"two marks":                   {"\xef\xbb\xbf\xef\xbb\xbfdata: [DONE]\n\n", false, true, false},
		"a mark later":                {"data: a\n\n\xef\xbb\xbfdata: [DONE]\n\n", false, true, false},
		"half a mark":                 {"\xef\xbbdata: [DONE]\n\n", false, true, false},
		"CR, then LF, are one end":    {"data: [DONE]\r\n", false, false, true},
		"LF, then CR, are two ends":   {"data: [DONE]\n\r", true, true, true},
		"mixed ends":                  {"data: a\r\n\ndata: [DONE]\r\r\n", true, true, true},
		"CR CR LF":                    {"data: [DONE]\r\r\n", true, true, true},
		"CR LF CR LF":                 {"data: [DONE]\r\n\r\n", true, true, true},
		"other separators are data":   {"data: [DONE]\u2028\n\n", false, true, true},
		"a form feed is not a blank":  {"data:\f[DONE]\n\n", false, true, true},
		"only the first blank is cut": {"data: \t[DONE]\n\n", false, true, true},
	} {
		for _, end := range []string{"\n", "\r", "\r\n"} {
			text := row.stream
			if end != "\n" {
				if row.unusually {
					continue
				}
				text = strings.ReplaceAll(text, "\n", end)
			}
			for _, step := range []int{1, 2, 3, 7, len(text) + 1} {
				s := eventstream.New(done)
				for rest := text; rest != ""; {
					n := min(step, len(rest))
					s.Add([]byte(rest[:n]))
					rest = rest[n:]
				}
				if s.Ended() != row.ended || s.Between() != row.between {
					t.Errorf("%s (%q, %d bytes at once): Ended %v, Between %v; want %v, %v", name, end, step, s.Ended(), s.Between(), row.ended, row.between)
				}
			}
		}
	}
}

func TestH33_WhatMakesAStreamIncomplete(t *testing.T) {
	rules := eventstream.Rules{IncompleteTypes: []string{"error", "message"}, IncompleteData: []string{`"finish":"length"`, "a\nb"}}
	for stream, want := range map[string]bool{
		"event: x\ndata: fine\n\n":                                         false,
		"event: error\ndata: x\n\n":                                        true,
		"data: no type is message\n\n":                                     true,
		"event: error\n\n":                                                 false, // not an event
		"event: x\ndata: {\"finish\":\"length\"}\n\n":                      true,
		"event: x\ndata: {\"finish\":\"length\"}\n":                        false, // not dispatched yet
		"event: x\ndata: a\ndata: b\n\n":                                   true,
		"event: error\ndata: x\n\nevent: x\ndata: fine\n\n":                true,
		"event: x\ndata: " + strings.Repeat("y", 64<<10) + "\n\n":          false,
		"event: x\ndata: " + strings.Repeat("y", 64<<10+1) + "\n\n":        true, // the rest is not searched
		"event: x\n: " + strings.Repeat("y", 64<<10+1) + "\ndata: x\n\n":   false,
		"event: x\nfoo: \"finish\":\"length\"\ndata: x\n\n":                false,
		"event: x\ndata: \"finish\"\n\nevent: x\ndata: :\"length\"\n\n":    false,
		"event: x\ndata: 1\n\nevent: x\ndata: \"finish\":\"length\"\r\r\n": true,
	} {
		s := eventstream.New(rules)
		s.Add([]byte(stream))
		if s.Incomplete() != want {
			t.Errorf("Incomplete of %.60q = %v; want %v", stream, !want, want)
		}
		if s.Ended() {
			t.Errorf("%.60q has ended without a terminal event in the rules", stream)
		}
	}
}

// However a stream is cut into pieces, a Scanner sees the same as in one piece.
func FuzzH33_PiecesDoNotMatter(f *testing.F) {
	for _, s := range []string{"\xef\xbb\xbfdata: a\r\n\r\ndata: [DONE]\n\n", "event: stop\rdata\r\r", ":x\ndata:a\ndata:b\n\n"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		rules := eventstream.Rules{End: "[DONE]", EndType: "stop", IncompleteTypes: []string{"error"}, IncompleteData: []string{"no"}}
		whole, pieces := eventstream.New(rules), eventstream.New(rules)
		whole.Add(stream)
		for rest := stream; len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			pieces.Add(rest[:n])
			rest = rest[n:]
		}
		if whole.Ended() != pieces.Ended() || whole.Between() != pieces.Between() || whole.Incomplete() != pieces.Incomplete() {
			t.Errorf("%q in pieces of %d differs", stream, int(step)+1)
		}
	})
}
