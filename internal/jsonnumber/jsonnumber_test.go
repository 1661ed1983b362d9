package jsonnumber_test

import (
	"encoding/json"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/weir-go/weir/internal/jsonnumber"
	"github.com/weir-go/weir/internal/stated"
)

func pointer(t testing.TB, s string) jsonnumber.Pointer {
	t.Helper()
	p, err := jsonnumber.Parse(s)
	if err != nil {
		t.Fatalf("Parse(%q) = %v", s, err)
	}
	return p
}

// H34: the number is found wherever the pieces are cut, and no other number is.
func TestH34NumbersInTexts(t *testing.T) {
	for _, row := range []struct {
		pointer, text string
		want          int
		ok            bool
	}{
		{"/usage/total_tokens", `{"id":"x","usage":{"prompt_tokens":3,"total_tokens":42,"more":{"total_tokens":1}}}`, 42, true},
		{"/usage/total_tokens", ` { "usage" : { "total_tokens" : 42 } , "choices":[{"usage":{"total_tokens":7}}] } ` + "\n", 42, true},
		{"/usage/total_tokens", `{"text":"\"usage\":{\"total_tokens\":9}","usage":{"total_tokens":42}}`, 42, true},
		{"/usage/total_tokens", `{"usage":{"total_tokens":"42"}}`, 0, false},
		{"/usage/total_tokens", `{"usage":null}`, 0, false},
		{"/usage/total_tokens", `{"usage":{"total_tokens":42}`, 0, false},
		{"/usage/total_tokens", `[{"usage":{"total_tokens":42}}]`, 0, false},
		{"/usage/total_tokens", `{"a":{"usage":{"total_tokens":42}}}`, 0, false},
		{"/usage/total_tokens", `{"usage":{"total_tokens":1},"usage":{"total_tokens":2}}`, 2, true},
		{"/n", `{"n":1,"n":"x"}`, 0, false},
		{"/n", `{"n":2.5}`, 3, true},
		{"/n", `{"n":1e3}`, 1000, true},
		{"/n", `{"n":1e400}`, 0, false},
		{"/n", `{"n":99999999999999999999}`, 0, false},
		{"/n", `{"n":1e400,"n":5}`, 5, true},
		{"/n", `{"n":-1}`, 0, false},
		{"/n", `{"n":5}{"n":6}`, 0, false},
		{"/a~1b/~0", `{"a/b":{"~":7}}`, 7, true},
		{"/\u00e9", `{"\u00e9":8}`, 8, true},
		{"/\u00e9", `{"é":8}`, 8, true},
		{"/", `{"":9}`, 9, true},
		{"/a/1/b", `{"a":[{"b":1},{"b":2},{"b":3}]}`, 2, true},
		{"/a/1", `{"a":[[1,5],4,6]}`, 4, true},
		{"/n", `{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `,"n":1}`, 0, false},
		{"/n", `{"` + strings.Repeat("x", 1<<16) + `":2,"n":1}`, 1, true},
	} {
		p := pointer(t, row.pointer)
		for cut := range min(len(row.text), 80) {
			s := jsonnumber.NewScanner(p)
			s.Write([]byte(row.text[:cut]))
			s.Write([]byte(row.text[cut:]))
			if n, ok := s.End(); n != row.want && row.ok || ok != row.ok {
				t.Fatalf("%s in %.80q, cut at %d = %d, %t; want %d, %t", row.pointer, row.text, cut, n, ok, row.want, row.ok)
			}
		}
	}
}

// H34: the last complete event with the number counts, with every form of line end, and
// however the stream is cut.
func TestH34NumbersInEvents(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		text := strings.ReplaceAll(": hello\n\ndata: {\"n\":1}\n\nevent: x\nid: 5\ndata:{\"n\":\ndata: 2}\n\ndata: {\"m\":3}\n\ndatas: {\"n\":9}\n\ndata: [DONE]\n\ndata: {\"n\":4}\n", "\n", end)
		for cut := range len(text) {
			e := jsonnumber.NewEvents(pointer(t, "/n"))
			e.Write([]byte(text[:cut]))
			e.Write([]byte(text[cut:]))
			if n, ok := e.End(); n != 2 || !ok {
				t.Fatalf("lines ending in %q, cut at %d: %d, %t; want 2", end, cut, n, ok)
			}
		}
	}
}

func TestH34PointersAreChecked(t *testing.T) {
	for _, s := range []string{"", "a", "/~", "/~2", strings.Repeat("/a", 17), "/" + strings.Repeat("a", 257)} {
		if p, err := jsonnumber.Parse(s); err == nil || !p.IsZero() {
			t.Errorf("Parse(%q) = %v, %v; want an error", s, p, err)
		}
	}
}

// A random text gives what encoding/json finds in it.
func FuzzAgainstEncodingJSON(f *testing.F) {
	for _, s := range []string{`{"a":{"b":3}}`, `{"a":[1,{"b":2}]}`, `{"a":{"b":1},"a":{"b":2}}`, `{"a":1}`, `{"a":{"b":3}} `, `{"\u0061":{"b":0.5}}`, `[]`, `3`, `{"a":{"b":3},}`} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		s := jsonnumber.NewScanner(pointer(t, "/a/b"))
		at := min(int(cut), len(text))
		s.Write(text[:at])
		s.Write(text[at:])
		n, ok := s.End()
		if !json.Valid(text) {
			return // anything goes, but a panic
		}
		want, wantOK := lookUp(text)
		if ok != wantOK || ok && n != want {
			t.Errorf("%q: %d, %t; want %d, %t", text, n, ok, want, wantOK)
		}
	})
}

// lookUp is the number at /a/b, of the last member of each name.
func lookUp(text []byte) (int, bool) {
	var outer, inner map[string]json.RawMessage
	if json.Unmarshal(text, &outer) != nil || json.Unmarshal(outer["a"], &inner) != nil {
		return 0, false
	}
	s := string(inner["b"])
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return 0, false
	}
	return stated.RoundedUp(s)
}

// Random texts of a small grammar, which fuzzing would take long to find.
func TestH34RandomTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var value func(depth int) string
	value = func(depth int) string {
		switch r.IntN(6 - depth/3) {
		case 0:
			return strconv.Itoa(r.IntN(100))
		case 1:
			return `"a\"b:{` + strconv.Itoa(r.IntN(10)) + `"`
		case 2:
			return "null"
		case 3:
			return "[" + value(depth+1) + "," + value(depth+1) + "]"
		}
		s := "{"
		for i := range r.IntN(3) {
			if i > 0 {
				s += ","
			}
			s += strconv.Quote(string(rune('a'+r.IntN(3)))) + ":" + value(depth+1)
		}
		return s + "}"
	}
	for range 20_000 {
		text := value(0)
		if json.Valid([]byte(text)) && strings.Count(text, `"a":`) < 2 && strings.Count(text, `"b":`) < 2 {
			want, wantOK := lookUp([]byte(text))
			if n, ok := pointer(t, "/a/b").In([]byte(text)); ok != wantOK || ok && n != want {
				t.Fatalf("%s: %d, %t; want %d, %t", text, n, ok, want, wantOK)
			}
		}
	}
}
