package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package sample

type Op func(int, ...string) error

type T[K comparable] struct {
	Field map[K][]Op
	hidden int
	inner
	*Embedded
}

type inner struct{ Through bool }

func (inner) Promoted() {}

type Embedded struct{}

func (t T[K]) Value(key K) (n int, err error) { return 0, nil }
func (t *T[K]) Pointer() {}
func (t *T[K]) unexported() {}

type Open interface{ Do(x interface{ Close() }) }
type Closed interface{ Do(); sealed() }
type Number interface{ ~int | ~float64 }

type Alias = Open

const (
	Untyped = 1 << 3
	Typed Kind = "kind"
)

type Kind string

var Err error

func Make[V any, P interface{ *V }](P) *T[string] { return nil }

func private() {}
`

const described = `pkg sample, const Typed Kind = "kind"
pkg sample, const Untyped ideal-int = 8
pkg sample, func Make[V any, P interface{*V}](P) *T[string]
pkg sample, method (*T[K]) Pointer()
pkg sample, method (T[K]) Promoted()
pkg sample, method (T[K]) Value(K) (int, error)
pkg sample, type Alias = Open
pkg sample, type Closed interface { unexported methods }
pkg sample, type Closed interface, Do()
pkg sample, type Embedded struct
pkg sample, type Kind string
pkg sample, type Number interface { ~int | ~float64 }
pkg sample, type Op func(int, ...string) error
pkg sample, type Open interface
pkg sample, type Open interface, Do(interface{Close()})
pkg sample, type T struct, Field map[K][]Op
pkg sample, type T struct, Through bool
pkg sample, type T struct, embedded *Embedded
pkg sample, type T[K comparable] struct
pkg sample, var Err error
`

func linesOf(t *testing.T, source string) string {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "sample.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := new(types.Config).Check("sample", fset, []*ast.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(packageLines(p), "")
}

func TestPackageLines(t *testing.T) {
	if have := linesOf(t, source); have != described {
		for _, line := range diff("sample", []byte(described), []byte(have)) {
			t.Error(line)
		}
		t.Errorf("lines differ, or their order:\n%s", have)
	}
	// The names of parameters and receivers are not API.
	renamed := strings.NewReplacer("key K", "other K", "(n int", "(m int", "(t T", "(u T").Replace(source)
	if have := linesOf(t, renamed); have != described {
		t.Errorf("lines after renames:\n%s", have)
	}
}

// Each change that a user can see changes the lines.
func TestPackageLinesShowChanges(t *testing.T) {
	for old, replacement := range map[string]string{
		"Field map[K][]Op":          "Field map[K]Op",
		"Through bool":              "through bool",
		"func (t T[K]) Value":       "func (t *T[K]) Value",
		"key K) (n int, err error)": "key K, _ int) (n int, err error)",
		"...string":                 "[]string",
		"1 << 3":                    "1 << 4",
		"Do(); sealed()":            "Do()",
		"type Alias = Open":         "type Alias = Closed",
		"K comparable":              "K ~string",
		"var Err error":             "var Err any",
		"~int | ~float64":           "~int",
	} {
		changed := strings.Replace(source, old, replacement, 1)
		if changed == source {
			t.Errorf("the source has no %q", old)
		}
		if linesOf(t, changed) == described {
			t.Errorf("no line shows that %q became %q", old, replacement)
		}
	}
}

func TestCompareFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "api")
	files := map[string][]byte{"weir.txt": []byte("a\nb\n"), "app.txt": nil}
	if err := compareFiles(dir, files); err == nil || !strings.Contains(err.Error(), "weir.txt: +a") {
		t.Errorf("compareFiles without files = %v; want an error with the missing lines", err)
	}
	if err := writeFiles(dir, files); err != nil {
		t.Fatal(err)
	}
	if err := compareFiles(dir, files); err != nil {
		t.Errorf("compareFiles of what was written = %v; want nil", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old.txt"), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	changed := map[string][]byte{"weir.txt": []byte("a\nc\n"), "app.txt": nil}
	err := compareFiles(dir, changed)
	for _, want := range []string{"weir.txt: -b", "weir.txt: +c", "old.txt: belongs to no", "-write"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("compareFiles = %v; want an error with %q", err, want)
		}
	}
	if err := writeFiles(dir, changed); err != nil {
		t.Fatal(err)
	}
	if err := compareFiles(dir, changed); err != nil {
		t.Errorf("compareFiles after a second write = %v; want nil", err)
	}
}
