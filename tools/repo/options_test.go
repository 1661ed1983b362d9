package repo_test

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/tools/repo/options"
)

// negatives matches the meanings of a negative value in the table: an error, or
// none of what the option bounds or does. For an unsigned type it is a dash.
var negatives = regexp.MustCompile(`^(–|error|none|as zero)([,;] .+)?$`)

func TestRepoOptionTableIsComplete(t *testing.T) {
	t.Parallel()
	rows := map[string]string{} // negative, by name
	var order []string
	for _, row := range options.Rows(readFile(t, options.Page)) {
		name, negative := row.Option, row.Negative
		if rows[name] != "" {
			t.Errorf("%s: two rows for %s", options.Page, name)
		}
		rows[name] = negative
		order = append(order, name)
		if !negatives.MatchString(negative) {
			t.Errorf("%s: negative is %q for %s; want error, none, as zero, or – for a type without sign", options.Page, negative, name)
		}
	}
	if !slices.IsSorted(order) {
		t.Errorf("%s: rows are not in the order of their names", options.Page)
	}
	fields := optionFields(goFiles(t))
	for name, unsigned := range fields {
		switch negative, ok := rows[name]; {
		case !ok:
			t.Errorf("%s: no row for %s; say what zero and negative mean there", options.Page, name)
		case unsigned != (negative == "–"):
			t.Errorf("%s: negative is %q for %s; want – for a type without sign, and for no other", options.Page, negative, name)
		}
	}
	for name := range rows {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s: there is no option %s", options.Page, name)
		}
	}
	if len(fields) < 100 {
		t.Errorf("%d options found; is the test still looking in the right place?", len(fields))
	}
}

// A structType is one of a package's exported structs.
type structType struct {
	pkg    string // its name
	fields *ast.FieldList
}

// optionFields returns the options of all importable packages, as
// package.Struct.Field, and whether their type is unsigned: the exported numbers
// and durations of the structs whose names end in Options, Config or Policy, of
// weir.Entry, and of the structs in their fields.
func optionFields(files []goFile) map[string]bool {
	dirs := map[string]map[string]structType{} // by folder, then by name
	for _, f := range files {
		dir := path.Dir(f.path)
		if f.isTest() || !importable(f, dir) {
			continue
		}
		if dirs[dir] == nil {
			dirs[dir] = map[string]structType{}
		}
		for _, d := range f.ast.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range g.Specs {
				if ts, ok := s.(*ast.TypeSpec); ok && ts.Name.IsExported() {
					if st, ok := ts.Type.(*ast.StructType); ok {
						dirs[dir][ts.Name.Name] = structType{f.ast.Name.Name, st.Fields}
					}
				}
			}
		}
	}
	byName := map[string]map[string]structType{} // by the package's name
	for _, structs := range dirs {
		for _, st := range structs {
			byName[st.pkg] = structs
		}
	}
	all := map[string]bool{}
	seen := map[string]bool{}
	var visit func(structs map[string]structType, name string)
	visit = func(structs map[string]structType, name string) {
		if pkg, other, ok := strings.Cut(name, "."); ok { // a struct of another package
			structs, name = byName[pkg], other
		}
		st, ok := structs[name]
		if !ok || seen[st.pkg+"."+name] {
			return
		}
		seen[st.pkg+"."+name] = true
		for _, field := range st.fields.List {
			kind := typeName(field.Type)
			visit(structs, kind)
			for _, n := range field.Names {
				if n.IsExported() && numeric.MatchString(kind) {
					all[st.pkg+"."+name+"."+n.Name] = strings.HasPrefix(kind, "uint")
				}
			}
		}
	}
	for _, structs := range dirs {
		for name, st := range structs {
			if optionStruct.MatchString(name) || name == "Entry" && st.pkg == "weir" {
				visit(structs, name)
			}
		}
	}
	return all
}

var (
	optionStruct = regexp.MustCompile(`(Options|Config|Policy)$`)
	numeric      = regexp.MustCompile(`^(u?int(8|16|32|64)?|float(32|64)|time\.Duration)$`)
)

// importable reports whether a user's program may import the package of f.
func importable(f goFile, dir string) bool {
	switch f.module {
	case "app", "lab", "bench", "tools":
		return false
	}
	return !strings.Contains("/"+dir+"/", "/internal/") && !strings.HasSuffix(f.ast.Name.Name, "test") && f.ast.Name.Name != "main"
}

// typeName returns the name of a field's type, or of its element type.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.ArrayType:
		return typeName(e.Elt)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		if x, ok := e.X.(*ast.Ident); ok {
			return x.Name + "." + e.Sel.Name
		}
	}
	return ""
}
