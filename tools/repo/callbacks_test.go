package repo_test

import (
	"go/ast"
	"strings"
	"testing"
)

// guardedHooks are the hooks of a Source and of the Options that only
// callbacks.go may call, each with the selector in front of it. Other code may
// read them, to compare one with nil or to pass it on.
var guardedHooks = map[string]string{
	"Clone": "src", "Weigh": "src", "Cost": "src", "Settle": "permit", "BatchScope": "src", "LoadContext": "src", "KeyString": "src",
	"name":     "names", // KeyString
	"Classify": "o", "Acquire": "Limiter", "Release": "permit",
	"LoadStart": "Observer", "LoadEnd": "Observer", "Waited": "Observer", "Event": "Observer",
	"Unmarshal": "Codec",
}

// F6: every hook is called in callbacks.go, which defines what happens if it
// panics or exits. A call elsewhere would have no such definition.
func TestRepoHooksAreCalledInOnePlace(t *testing.T) {
	t.Parallel()
	found := make(map[string]bool)
	for _, f := range goFiles(t) {
		if f.module != "." || f.isTest() || strings.Contains(f.path, "/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			of := ""
			switch x := sel.X.(type) {
			case *ast.SelectorExpr:
				of = x.Sel.Name
			case *ast.Ident:
				of = x.Name
			}
			switch {
			case of == "" || guardedHooks[sel.Sel.Name] != of:
			case f.path == "callbacks.go":
				found[sel.Sel.Name] = true
			default:
				t.Errorf("%s calls %s.%s; want that in callbacks.go", f.path, of, sel.Sel.Name)
			}
			return true
		})
	}
	for _, hook := range []string{"Clone", "Weigh", "Cost", "BatchScope", "LoadContext", "name", "Acquire", "Unmarshal"} {
		if !found[hook] {
			t.Errorf("callbacks.go does not call %s; is it called by another name?", hook)
		}
	}
}
