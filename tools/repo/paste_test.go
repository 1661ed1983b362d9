package repo_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A Go block of the README or a guide can be pasted: each name in it is declared in a
// block of the page, belongs to a package, or is explained in the page's text, in a code
// span. A block that returns values shows its function. That its code compiles is sure,
// because it equals code that does.
func TestRepoSnippetsCanBePasted(t *testing.T) {
	t.Parallel()
	packages := packageNames(checkout(t))
	n := 0
	for _, name := range named(t, ".md") {
		if name != "README.md" && name != "docs/overview.md" && path.Dir(name) != "docs/howto" {
			continue
		}
		blocks := goBlocks(string(readFile(t, name)))
		n += len(blocks)
		for _, err := range pasteFaults(string(readFile(t, name)), blocks, packages) {
			t.Errorf("%s:%v", name, err)
		}
	}
	if n < 60 {
		t.Errorf("%d blocks; is this test looking?", n)
	}
}

// packageNames returns the names by which the code refers to packages.
func packageNames(r *repository) map[string]bool {
	names := map[string]bool{}
	for _, f := range r.goFiles {
		names[f.ast.Name.Name] = true
		for _, s := range f.ast.Imports {
			if s.Name != nil {
				names[s.Name.Name] = true
			}
			p := regexp.MustCompile(`/v\d+$`).ReplaceAllString(strings.Trim(s.Path.Value, `"`), "")
			names[strings.TrimSuffix(path.Base(p), ".go")] = true
		}
	}
	return names
}

// pasteFaults returns what stands in the way of pasting the blocks of a page.
func pasteFaults(page string, blocks []goBlock, packages map[string]bool) (faults []error) {
	explained := map[string]bool{}
	text := fenced.ReplaceAllString(page, "")
	for _, span := range codeSpan.FindAllString(text, -1) {
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(span, -1) {
			explained[word] = true
		}
	}
	type snippet struct {
		line int
		file *ast.File
	}
	var snippets []snippet
	for _, b := range blocks {
		f, err := parseSnippet(b.code)
		if err != nil {
			faults = append(faults, fmt.Errorf("%d: %w", b.line, err))
			continue
		}
		snippets = append(snippets, snippet{b.line, f})
		for name := range declared(f) {
			explained[name] = true
		}
	}
	for _, s := range snippets {
		for _, imported := range s.file.Imports {
			at := strings.Trim(imported.Path.Value, `"`)
			if _, inner, ok := strings.Cut(at, "/internal/"); ok && !strings.Contains(text, "`internal/"+inner+"`") {
				faults = append(faults, fmt.Errorf("%d: a reader cannot import %s; say what stands for it, or `internal/%s`", s.line, at, inner))
			}
		}
		missing := map[string]bool{}
		selected := map[*ast.Ident]bool{}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if id, ok := sel.X.(*ast.Ident); ok {
					selected[id] = true
				}
			}
			return true
		})
		for _, id := range s.file.Unresolved {
			if !explained[id.Name] && types.Universe.Lookup(id.Name) == nil && !(selected[id] && packages[id.Name]) {
				missing[id.Name] = true
			}
		}
		if len(missing) > 0 {
			faults = append(faults, fmt.Errorf("%d: no block and no sentence of the page says what %s is", s.line, strings.Join(slices.Sorted(maps.Keys(missing)), ", ")))
		}
		if returnsValues(s.file) {
			faults = append(faults, fmt.Errorf("%d: the block returns values; show its function: <!-- example: file.go#func Name -->", s.line))
		}
	}
	return faults
}

// statements is the function in which statements stand.
const statements = "statementsOfTheBlock"

// parseSnippet parses a file, declarations, or statements.
func parseSnippet(code string) (*ast.File, error) {
	for _, wrapped := range []string{code, "package p\n" + code, "package p\nfunc " + statements + "() {\n" + code + "\n}"} {
		if f, err := parser.ParseFile(token.NewFileSet(), "", wrapped, 0); err == nil {
			return f, nil
		}
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc _() {\n"+code+"\n}", 0)
	return nil, err
}

// declared returns the names that other blocks of the page may use: those of the
// declarations, and those that the statements declare at their top.
func declared(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for name := range f.Scope.Objects {
		names[name] = true
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != statements {
			continue
		}
		for _, s := range fn.Body.List {
			if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
				for _, e := range a.Lhs {
					names[e.(*ast.Ident).Name] = true
				}
			}
			if d, ok := s.(*ast.DeclStmt); ok {
				for _, spec := range d.Decl.(*ast.GenDecl).Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[spec.Name.Name] = true
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}

// returnsValues reports whether the statements of the block, outside of functions in it,
// return values.
func returnsValues(f *ast.File) (found bool) {
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == statements {
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
					found = true
				}
				_, inner := n.(*ast.FuncLit)
				return !inner
			})
		}
	}
	return found
}

func TestRepoSnippetsCanBePastedBites(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]int{
		"```go\nx := helper()\n```\n":                                                                               1,
		"`helper` is your function.\n```go\nx := helper()\n```\n":                                                   0,
		"```go\nfunc helper() int { return 1 }\n```\n```go\nx := helper()\n```":                                     0,
		"```go\nx := weir.Must(1)\n```\n":                                                                           0,
		"```go\nreturn 1, nil\n```\n":                                                                               1,
		"```go\nf := func() int { return 1 }\n```\n":                                                                0,
		"```go\npackage p\nimport \"example.com/internal/mail\"\nvar m mail.Mail\n```\n":                            1,
		"`internal/mail` is yours.\n```go\npackage p\nimport \"example.com/internal/mail\"\nvar m mail.Mail\n```\n": 0,
		"```go\nx := := 1\n```\n":                                                                                   1,
	} {
		if got := pasteFaults(page, goBlocks(page), packageNames(checkout(t))); len(got) != want {
			t.Errorf("%q: %v; want %d faults", page, got, want)
		}
	}
}

// A guide that runs weir says where it comes from.
func TestRepoGuidesInstallTheCommand(t *testing.T) {
	t.Parallel()
	runs := regexp.MustCompile("(?m)^ *```(?:sh|console)\n(?:(?:[^`\n].*)?\n)*?(?:\\$ )?weir [a-z]")
	n := 0
	for _, name := range named(t, ".md") {
		if page := string(readFile(t, name)); path.Dir(name) == "docs/howto" && runs.MatchString(page) {
			n++
			if !strings.Contains(page, "README.md#install") {
				t.Errorf("%s runs weir, and does not link README.md#install", name)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d guides run weir; is this test looking?", n)
	}
}
