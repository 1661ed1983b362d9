package repo_test

import (
	"go/ast"
	"go/token"
	"path"
	"strings"
	"testing"
)

// The index of a package's constants says for each default which option it belongs to.
func TestRepoDefaultsNameTheirOption(t *testing.T) {
	t.Parallel()
	n := 0
	for _, f := range goFiles(t) {
		if f.isTest() || !importable(f, path.Dir(f.path)) {
			continue
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				vs := s.(*ast.ValueSpec)
				if !strings.HasPrefix(vs.Names[0].Name, "Default") {
					continue
				}
				n++
				if text := vs.Doc.Text() + vs.Comment.Text(); text == "" && (g.Lparen.IsValid() || g.Doc == nil) {
					t.Errorf("%s: %s has no comment; name its option: // Options.TTL", f.fset.Position(vs.Pos()), vs.Names[0].Name)
				}
			}
		}
	}
	if n < 60 {
		t.Errorf("%d defaults; is this test looking?", n)
	}
}
