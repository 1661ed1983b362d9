package main

import (
	"cmp"
	"context"
	"fmt"
	"go/types"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/weir-go/weir/tools/released"
)

// describe returns the file of each module. All packages are loaded together, from the
// export data that the compiler left in the build cache.
func describe(ctx context.Context, modules []released.Module) (map[string][]byte, error) {
	var patterns []string
	for _, m := range modules {
		patterns = append(patterns, "./"+path.Join(m.Dir, "..."))
	}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx,
		Mode:    packages.NeedName | packages.NeedModule | packages.NeedTypes | packages.NeedExportFile,
		// One platform, so that the files are the same on every machine.
		Env: append(os.Environ(), "GOOS=linux", "GOARCH=amd64"),
	}, patterns...)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(loaded, func(a, b *packages.Package) int { return cmp.Compare(a.PkgPath, b.PkgPath) })
	lines := map[string][]string{} // by module path
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %v", p.PkgPath, p.Errors)
		}
		if p.Module == nil || p.Name == "main" || isInternal(p.PkgPath) {
			continue
		}
		lines[p.Module.Path] = append(lines[p.Module.Path], packageLines(p.Types)...)
	}
	files := map[string][]byte{}
	for _, m := range modules {
		files[fileName(m)] = []byte(strings.Join(lines[m.Path()], ""))
	}
	return files, nil
}

func isInternal(path string) bool { return slices.Contains(strings.Split(path, "/"), "internal") }

// packageLines returns the lines of a package, sorted: one for each exported name, field
// and method.
func packageLines(p *types.Package) []string {
	d := &describer{pkg: p}
	scope := p.Scope()
	for _, name := range scope.Names() {
		if o := scope.Lookup(name); o.Exported() {
			d.object(o)
		}
	}
	slices.Sort(d.lines)
	return slices.Compact(d.lines)
}

// A describer collects the lines of a package.
type describer struct {
	pkg   *types.Package
	lines []string
}

func (d *describer) add(format string, args ...any) {
	path := strings.TrimPrefix(strings.TrimPrefix(d.pkg.Path(), released.Core), "/")
	if path == "" {
		path = "weir"
	}
	d.lines = append(d.lines, "pkg "+path+", "+fmt.Sprintf(format, args...)+"\n")
}

func (d *describer) object(o types.Object) {
	switch o := o.(type) {
	case *types.Const:
		d.add("const %s %s = %s", o.Name(), d.typ(o.Type()), o.Val().ExactString())
	case *types.Var:
		d.add("var %s %s", o.Name(), d.typ(o.Type()))
	case *types.Func:
		d.add("func %s%s", o.Name(), d.signature(o.Signature()))
	case *types.TypeName:
		d.typeName(o)
	}
}

func (d *describer) typeName(o *types.TypeName) {
	if alias, ok := o.Type().(*types.Alias); ok {
		d.add("type %s%s = %s", o.Name(), d.typeParams(alias.TypeParams()), d.typ(alias.Rhs()))
		return
	}
	named := o.Type().(*types.Named)
	head := "type " + o.Name() + d.typeParams(named.TypeParams())
	switch u := named.Underlying().(type) {
	case *types.Struct:
		d.add("%s struct", head)
		d.fields(o.Name(), u, map[*types.Struct]bool{})
	case *types.Interface:
		d.add("%s interface%s", head, d.elements(u))
		d.interfaceMethods(o.Name(), u)
		return // its method set has the same methods
	default:
		d.add("%s %s", head, d.typ(u))
	}
	d.methods(named)
}

// fields adds the exported fields of a struct, and those that it has through embedded
// structs without an exported name.
func (d *describer) fields(name string, s *types.Struct, seen map[*types.Struct]bool) {
	if seen[s] {
		return
	}
	seen[s] = true
	for f := range s.Fields() {
		switch {
		case f.Exported() && f.Embedded():
			d.add("type %s struct, embedded %s", name, d.typ(f.Type()))
		case f.Exported():
			d.add("type %s struct, %s %s", name, f.Name(), d.typ(f.Type()))
		case f.Embedded():
			t := f.Type()
			if p, ok := t.(*types.Pointer); ok {
				t = p.Elem()
			}
			if inner, ok := t.Underlying().(*types.Struct); ok {
				d.fields(name, inner, seen)
			}
		}
	}
}

// elements returns what an interface has besides methods: its types, and whether other
// packages can implement it.
func (d *describer) elements(i *types.Interface) string {
	var found []string
	for t := range i.EmbeddedTypes() {
		if _, ok := t.Underlying().(*types.Interface); !ok || i.IsComparable() && i.NumMethods() == 0 {
			found = append(found, d.typ(t))
		}
	}
	for m := range i.Methods() {
		if !m.Exported() {
			found = append(found, "unexported methods")
			break
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " { " + strings.Join(found, "; ") + " }"
}

func (d *describer) interfaceMethods(name string, i *types.Interface) {
	for m := range i.Methods() {
		if m.Exported() {
			d.add("type %s interface, %s%s", name, m.Name(), d.signature(m.Signature()))
		}
	}
}

// methods adds the exported methods of a type, and those of embedded fields.
func (d *describer) methods(named *types.Named) {
	values := types.NewMethodSet(named)
	for selection := range types.NewMethodSet(types.NewPointer(named)).Methods() {
		m := selection.Obj().(*types.Func)
		if !m.Exported() {
			continue
		}
		receiver := named.Obj().Name() + typeParamNames(named.TypeParams())
		if values.Lookup(m.Pkg(), m.Name()) == nil {
			receiver = "*" + receiver
		}
		d.add("method (%s) %s%s", receiver, m.Name(), d.signature(selection.Type().(*types.Signature)))
	}
}

// typ returns a type as this package writes it.
func (d *describer) typ(t types.Type) string {
	switch t := t.(type) {
	case *types.Signature:
		return "func" + d.signature(t)
	case *types.Basic:
		if t.Info()&types.IsUntyped != 0 {
			return strings.Replace(t.Name(), "untyped ", "ideal-", 1)
		}
	}
	return types.TypeString(t, d.qualifier)
}

func (d *describer) qualifier(p *types.Package) string {
	if p == d.pkg {
		return ""
	}
	return p.Name()
}

// signature returns a signature without the names of parameters, which are not API.
func (d *describer) signature(s *types.Signature) string {
	text := d.typeParams(s.TypeParams()) + d.tuple(s.Params(), s.Variadic())
	switch results := s.Results(); results.Len() {
	case 0:
		return text
	case 1:
		return text + " " + d.typ(results.At(0).Type())
	default:
		return text + " " + d.tuple(results, false)
	}
}

func (d *describer) tuple(t *types.Tuple, variadic bool) string {
	var all []string
	for v := range t.Variables() {
		all = append(all, d.typ(v.Type()))
	}
	if variadic {
		last := t.At(t.Len() - 1).Type()
		if s, ok := last.(*types.Slice); ok {
			all[len(all)-1] = "..." + d.typ(s.Elem())
		}
	}
	return "(" + strings.Join(all, ", ") + ")"
}

func (d *describer) typeParams(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for p := range list.TypeParams() {
		all = append(all, p.Obj().Name()+" "+d.typ(p.Constraint()))
	}
	return "[" + strings.Join(all, ", ") + "]"
}

func typeParamNames(list *types.TypeParamList) string {
	if list.Len() == 0 {
		return ""
	}
	var all []string
	for p := range list.TypeParams() {
		all = append(all, p.Obj().Name())
	}
	return "[" + strings.Join(all, ", ") + "]"
}
