package main

import (
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

func TestSentencesAreRead(t *testing.T) {
	repo := fstest.MapFS{
		"README.md": {Data: []byte("# A heading is no sentence here.\n\nThis is the first [sentence](x.md) of it. Too short. It ends\non the next line, v1.5 included.\n\n" +
			"```go\nThis is code and no sentence.\n```\n\n- An item of a list counts, e.g. this one.\n\n| A table does not count here. |\n|---|\n")},
		"docs/adr/0001-x.md": {Data: []byte("A decision is not for new readers.\n")},
		"weir.go":            {Data: []byte("// Package weir guards the calls of tests.\npackage weir\n\n// F does one thing and returns. a hidden one\nfunc F() {}\n\n// f is not exported, so not read.\nfunc f() {}\n\ntype (\n\t// T is a type with a field.\n\tT struct {\n\t\t// A is a field of this type.\n\t\tA int\n\t}\n)\n")},
		"internal/x.go":      {Data: []byte("// Package x is not for any users.\npackage x\n")},
	}
	all, err := read(repo)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range all {
		got = append(got, s.text)
	}
	want := []string{"This is the first sentence of it.", "It ends on the next line, v1.5 included.", "An item of a list counts, e.g. this one.",
		"Package weir guards the calls of tests.", "T is a type with a field.", "A is a field of this type."}
	if !slices.Equal(got, want) {
		t.Errorf("sentences %q; want %q", got, want)
	}
}

// A seed gives the same sentences again, and another seed gives others.
func TestSentencesAreDrawn(t *testing.T) {
	all, err := read(os.DirFS("../.."))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5000 {
		t.Errorf("%d sentences; is this test looking?", len(all))
	}
	one, again, other := draw(all, 1, 100), draw(all, 1, 100), draw(all, 2, 100)
	if len(one) != 100 || !slices.Equal(one, again) || slices.Equal(one, other) {
		t.Error("the draw does not depend on the seed alone")
	}
}
