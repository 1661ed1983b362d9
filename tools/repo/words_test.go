package repo_test

import (
	"go/ast"
	"path"
	"strings"
	"testing"
	"unicode"
)

// replacedWords are former words of the project that readers had to learn, with
// the standard terms. docs/goals.md has the glossary.
var replacedWords = map[string]string{
	"office": "jobService", "desk": "routeJobs", "desks": "routeJobs", "staff": "workers", "hire": "setWorkers",
	"crew": "fleet client", "team": "fleet client", "membership": "fleet client", "enlist": "connect", "discharge": "close",
	"sight": "adminUI", "furnish": "build", "wish": "spec", "wishes": "specs", "hush": "close streams", "hushed": "close streams",
	"vault": "backend", "errand": "fleet lookup", "leg": "trace", "air": "active flights", "lesson": "hint", "lessons": "hints",
	"passage": "passthrough", "seat": "subscription, or joiner", "seats": "subscriptions", "sit": "subscribe", "door": "listener, or client limiter", "doors": "listeners",
}

// One word per thing: identifiers and file names contain no replaced words.
func TestRepoReplacedWordsStayAway(t *testing.T) {
	t.Parallel()
	clean := map[string]bool{} // names without such a word
	for _, f := range goFiles(t) {
		complain := func(name, where string) {
			if clean[name] {
				return
			}
			clean[name] = true
			for _, word := range wordsOf(name) {
				if rather, ok := replacedWords[word]; ok {
					clean[name] = false
					t.Errorf("%s: %s has the word %q; rather %s", where, name, word, rather)
				}
			}
		}
		complain(strings.TrimSuffix(path.Base(f.path), ".go"), f.path)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				complain(id.Name, f.fset.Position(id.Pos()).String())
			}
			return true
		})
	}
}

// wordsOf splits an identifier: openJobService and open_job_service are open, job and
// service.
func wordsOf(name string) []string {
	var spaced strings.Builder
	var last rune
	for _, c := range name {
		if unicode.IsUpper(c) && !unicode.IsUpper(last) {
			spaced.WriteByte(' ')
		}
		spaced.WriteRune(unicode.ToLower(c))
		last = c
	}
	return strings.FieldsFunc(spaced.String(), func(c rune) bool { return !unicode.IsLetter(c) })
}
