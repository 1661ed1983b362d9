package repo_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// undescribed calls missing with each exported constant and field that no comment covers:
// neither its own, nor one before its group, nor the comment of its type, which must name
// it. It returns the number of all.
func (f goFile) undescribed(missing func(ast.Node, string)) (n int) {
	for _, d := range f.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				if g.Tok == token.CONST {
					n += f.constants(g, s, missing)
				}
			case *ast.TypeSpec:
				if st, ok := s.Type.(*ast.StructType); ok && s.Name.IsExported() {
					n += f.fields(s.Name.Name, g.Doc.Text()+s.Doc.Text(), st, missing)
				}
			}
		}
	}
	return n
}

// bound is the beginning of the names of constants that are the value of an option.
var bound = regexp.MustCompile(`^(?:Default|Max|Min)[A-Z]`)

func (f goFile) constants(g *ast.GenDecl, s *ast.ValueSpec, missing func(ast.Node, string)) (n int) {
	own := s.Doc.Text() + s.Comment.Text()
	if own == "" && !g.Lparen.IsValid() {
		own = g.Doc.Text()
	}
	for _, name := range s.Names {
		if !name.IsExported() {
			continue
		}
		n++
		switch option := regexp.MustCompile(`\b[A-Z]\w*[a-z]\w*\b`).FindAllString(strings.ReplaceAll(own, name.Name, ""), -1); {
		case bound.MatchString(name.Name) && len(option) == 0:
			missing(name, name.Name+" names no option, function or field that it belongs to")
		case own == "" && g.Doc.Text() == "":
			missing(name, name.Name+" has no comment, nor has its group")
		}
	}
	return n
}

func (f goFile) fields(typ, doc string, st *ast.StructType, missing func(ast.Node, string)) (n int) {
	covered, end := false, 0 // by the comment of the group, whose last line is end
	for _, field := range st.Fields.List {
		first := field.Pos()
		if field.Doc != nil {
			first = field.Doc.Pos()
		}
		if f.fset.Position(first).Line > end+1 {
			covered = false
		}
		covered = covered || field.Doc != nil
		end = f.fset.Position(field.End()).Line
		for _, name := range field.Names {
			if !name.IsExported() {
				continue
			}
			n++
			named := regexp.MustCompile(`\b` + name.Name + `\b`).MatchString(doc)
			if !covered && field.Comment == nil && !named {
				missing(name, fmt.Sprintf("%s.%s has no comment, nor has its group", typ, name.Name))
			}
		}
	}
	return n
}

// Every exported constant says which option it belongs to, and a comment covers every
// exported field.
func TestRepoNamesAreDescribed(t *testing.T) {
	t.Parallel()
	n := 0
	for _, f := range goFiles(t) {
		if f.isTest() || !importable(f, path.Dir(f.path)) || hasAnyPrefix(f.module, []string{"bench", "examples"}) {
			continue
		}
		n += f.undescribed(func(at ast.Node, what string) { t.Errorf("%s: %s", f.fset.Position(at.Pos()), what) })
	}
	if n < 1000 {
		t.Errorf("%d constants and fields; is this test looking?", n)
	}
}

// Names without a comment are found, and those that a comment covers are not.
func TestRepoNamesAreDescribedBites(t *testing.T) {
	t.Parallel()
	const code = `package x

const (
	DefaultA = 1 // of the calls
	DefaultB = 2 // Options.B
	MaxC     = 3
)

const D = 1

// The states.
const (
	E = 1
)

// A T has Named.
type T struct {
	Bare    int
	Named   int
	Trailed int // it is described
	hidden  int

	// A comment for the group.
	First, Second int
	Third         int

	Alone int
}

type u struct{ Bare int }
`
	f := goFile{path: "x.go", text: []byte(code), fset: token.NewFileSet()}
	var err error
	if f.ast, err = parser.ParseFile(f.fset, f.path, code, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	var got []string
	n := f.undescribed(func(_ ast.Node, what string) { name, _, _ := strings.Cut(what, " "); got = append(got, name) })
	if want := []string{"DefaultA", "MaxC", "D", "T.Bare", "T.Alone"}; !slices.Equal(got, want) || n != 12 {
		t.Errorf("%d names, of which %q are not described; want 12, %q", n, got, want)
	}
}
