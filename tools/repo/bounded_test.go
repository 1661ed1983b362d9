package repo_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// Everything read from outside has a bound: whole files and streams are read
// with jobs/bounded, decoders and line readers read from a limited reader.
func TestRepoReadsAreBounded(t *testing.T) {
	t.Parallel()
	whole := map[string]bool{
		"os.ReadFile": true, "io.ReadAll": true, "ioutil.ReadAll": true, "ioutil.ReadFile": true, "fs.ReadFile": true,
		"tls.LoadX509KeyPair": true, "nats.UserCredentials": true, "nats.RootCAs": true, "nats.ClientCert": true, "fmt.Scan": true,
		"fmt.Scanln": true, "fmt.Fscan": true, "httputil.DumpResponse": true, "httputil.DumpRequest": true,
	}
	streams := map[string]bool{"json.NewDecoder": true, "xml.NewDecoder": true, "gob.NewDecoder": true, "yaml.NewDecoder": true, "csv.NewReader": true}
	ends := map[string]bool{"http.MaxBytesReader": true, "io.LimitReader": true, "bytes.NewReader": true, "strings.NewReader": true}
	shipped := releasedDirs()
	for _, f := range goFiles(t) {
		testing := strings.Contains(f.path, "test/") || strings.HasPrefix(f.path, "jobs/internal/")
		if !slices.Contains(shipped, f.module) || f.isTest() || testing || strings.HasPrefix(f.path, "jobs/bounded/") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := called(call)
			method := name[strings.LastIndex(name, ".")+1:]
			switch {
			case whole[name]:
				t.Errorf("%s: %s has no bound; read by jobs/bounded", f.path, name)
			case streams[name] && (len(call.Args) == 0 || !ends[calledBy(call.Args[0])]):
				t.Errorf("%s: %s reads without a bound; give it an http.MaxBytesReader or io.LimitReader", f.path, name)
			case method == "ReadString" || method == "ReadBytes":
				sel := call.Fun.(*ast.SelectorExpr)
				reader, ok := sel.X.(*ast.CallExpr)
				if !ok || len(reader.Args) == 0 || !ends[calledBy(reader.Args[0])] {
					t.Errorf("%s: %s reads a line without a bound", f.path, name)
				}
			case method == "ReadFrom" && len(call.Args) == 1 && !ends[calledBy(call.Args[0])] && !strings.HasPrefix(name, "rf."):
				// A stream that is only passed on (io.ReaderFrom of a ResponseWriter) is
				// called rf.
				t.Errorf("%s: %s reads without a bound", f.path, name)
			}
			return true
		})
	}
}

// called returns the name of the called function, such as io.ReadAll, or of a method
// with its variable.
func called(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name + "." + sel.Sel.Name
	case *ast.SelectorExpr:
		return x.Sel.Name + "." + sel.Sel.Name
	}
	return "." + sel.Sel.Name
}

// calledBy is called for an expression that may not be a call.
func calledBy(e ast.Expr) string {
	if call, ok := e.(*ast.CallExpr); ok {
		return called(call)
	}
	return ""
}
