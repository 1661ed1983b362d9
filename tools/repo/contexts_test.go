package repo_test

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// A context that others have written, such as one of two merged contexts, may close its
// Done before it sets its Err. A wait that ended because of Done and then returns Err or
// Cause would have ended without an error: the released modules give them an alternative
// with cmp.Or, and the core calls wait.Cause.
func TestRepoWaitsEndWithAnError(t *testing.T) {
	t.Parallel()
	released := releasedDirs()
	for _, f := range goFiles(t) {
		if f.isTest() || !slices.Contains(released, f.module) || f.module == "app" { // the command has only contexts that it made
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			c, ok := n.(*ast.CommClause)
			if !ok || c.Comm == nil {
				return true
			}
			ctx := doneOf(c.Comm)
			if ctx == "" {
				return true
			}
			for _, s := range c.Body {
				ast.Inspect(s, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					text := source(call)
					if text == "context.Cause("+ctx+")" || text == ctx+".Err()" {
						t.Errorf("%s: %s may be nil after <-%s.Done(): cmp.Or(%s, context.Canceled)", f.fset.Position(call.Pos()), text, ctx, text)
					}
					return source(call.Fun) != "cmp.Or"
				})
			}
			return true
		})
	}
}

// doneOf returns the context from whose Done s receives, or "".
func doneOf(s ast.Stmt) string {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return ""
	}
	u, ok := e.X.(*ast.UnaryExpr)
	if !ok || u.Op != token.ARROW {
		return ""
	}
	ctx, found := strings.CutSuffix(source(u.X), ".Done()")
	if !found {
		return ""
	}
	return ctx
}

// source is the text of a simple expression: names, selectors and calls.
func source(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return source(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		args := make([]string, len(e.Args))
		for i, a := range e.Args {
			args[i] = source(a)
		}
		return source(e.Fun) + "(" + strings.Join(args, ", ") + ")"
	}
	return "?"
}
