package repo_test

import (
	"go/ast"
	"strings"
	"testing"
)

// Every type with a goroutine is ended in the same way (decision 0047).
func TestRepoOneLifecycle(t *testing.T) {
	t.Parallel()
	plain := map[string]string{ // Close without a context
		"weirotel.Telemetry": "it has no goroutine",
	}
	programs := []string{"app", "bench", "examples", "lab", "tools", "jobs/check", "adapter/weirgrpc/interoptest"}
	closing := 0
	for _, f := range goFiles(t) {
		if f.isTest() || strings.Contains("/"+f.path, "/internal/") || hasAnyPrefix(f.path, programs) {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !ast.IsExported(receiver(fn)) {
				continue
			}
			name := f.ast.Name.Name + "." + receiver(fn)
			switch fn.Name.Name {
			case "Close", "Drain":
				closing++
				params, results := fn.Type.Params.List, fn.Type.Results
				if _, ok := plain[name]; ok {
					delete(plain, name)
				} else if len(params) != 1 || text(params[0].Type) != "context.Context" || results == nil || len(results.List) != 1 || text(results.List[0].Type) != "error" {
					t.Errorf("%s: %s.%s; want %s(ctx context.Context) error", f.path, name, fn.Name.Name, fn.Name.Name)
				}
			case "Stop", "Shutdown", "LeaveFleet", "StopRefreshing":
				t.Errorf("%s: %s.%s; want Close, or Drain", f.path, name, fn.Name.Name)
			}
		}
	}
	if closing < 15 || len(plain) > 0 {
		t.Errorf("%d methods Close and Drain, and of the exceptions %v are left; is this test looking?", closing, plain)
	}
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p+"/") {
			return true
		}
	}
	return false
}

// receiver returns the name of the type that fn is a method of.
func receiver(fn *ast.FuncDecl) string {
	of := fn.Recv.List[0].Type
	for {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// text returns a type as written in the source: an identifier, or a qualified
// one.
func text(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return text(s.X) + "." + s.Sel.Name
	}
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
