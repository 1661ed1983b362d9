// Command sentences draws sentences from what readers of weir read first, for a review of
// the language: the README, the pages under docs/ without the decisions, and the comments
// of exported names, as go doc shows them.
//
//	go run ./tools/sentences -seed 45 -n 100
//
// The same seed and the same texts give the same sentences, so that two readers can mark
// the same ones, and anyone can draw them again. Each line has the file, and the sentence.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

func main() {
	seed := flag.Uint64("seed", 1, "of the draw")
	n := flag.Int("n", 100, "how many sentences")
	root := flag.String("root", ".", "the checkout of weir")
	flag.Parse()
	all, err := read(os.DirFS(*root))
	if err != nil {
		fmt.Fprintln(os.Stderr, "sentences:", err)
		os.Exit(1)
	}
	for i, s := range draw(all, *seed, *n) {
		fmt.Printf("%3d  %s\n     %s\n", i+1, s.file, s.text)
	}
	fmt.Printf("%d of %d sentences, seed %d\n", min(*n, len(all)), len(all), *seed)
}

// A sentence is one with the file that it is in.
type sentence struct{ file, text string }

// draw returns n different sentences.
func draw(all []sentence, seed uint64, n int) (drawn []sentence) {
	r := rand.New(rand.NewPCG(seed, 0))
	for _, i := range r.Perm(len(all))[:min(n, len(all))] {
		drawn = append(drawn, all[i])
	}
	return drawn
}

// read returns every sentence, in the order of the files.
func read(repo fs.FS) (all []sentence, err error) {
	err = fs.WalkDir(repo, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if slices.Contains(skipped, name) || strings.HasPrefix(path.Base(name), ".") && name != "." || path.Base(name) == "internal" || path.Base(name) == "testdata" {
				return fs.SkipDir
			}
			return nil
		}
		var texts []string
		switch {
		case name == "README.md" || strings.HasPrefix(name, "docs/") && path.Ext(name) == ".md" && name != "docs/contract-tests.md":
			page, err := fs.ReadFile(repo, name)
			if err != nil {
				return err
			}
			texts = paragraphs(string(page))
		case path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			code, err := fs.ReadFile(repo, name)
			if err != nil {
				return err
			}
			if texts, err = comments(name, code); err != nil {
				return err
			}
		}
		for _, t := range texts {
			for _, s := range split(t) {
				all = append(all, sentence{name, s})
			}
		}
		return nil
	})
	return all, err
}

// skipped are folders that users do not import, or whose pages are not for readers.
var skipped = []string{"app", "lab", "bench", "tools", "examples", "docs/adr", "console/assets", "site"}

var notProse = regexp.MustCompile("(?ms)<!-- lab:.*?<!-- /lab -->|^[ \t]*```.*?^[ \t]*```|<!--.*?-->|^\\|.*?$|^#+ .*?$")

// paragraphs returns the paragraphs and the items of lists of a page, without code, tables
// and headings.
func paragraphs(page string) []string {
	page = notProse.ReplaceAllString(page, "\n")
	page = regexp.MustCompile(`(?m)^[ \t]*(?:[-*]|\d+\.) `).ReplaceAllString(page, "\n")
	page = regexp.MustCompile(`(?m)^> ?`).ReplaceAllString(page, "")
	page = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(page, "$1")
	return strings.Split(page, "\n\n")
}

// comments returns the paragraphs of the comments of a file's exported names, methods and
// fields, and of its package.
func comments(name string, code []byte) (all []string, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, code, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || f.Name.Name == "main" {
		return nil, err
	}
	add := func(groups ...*ast.CommentGroup) {
		for _, g := range groups {
			text := regexp.MustCompile(`(?m)^(?:\t.*|#.*|[ ]*(?:-|\d+\.) .*)$`).ReplaceAllString(g.Text(), "\n")
			all = append(all, strings.Split(text, "\n\n")...)
		}
	}
	add(f.Doc)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				add(d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if !s.Name.IsExported() {
						continue
					}
					add(d.Doc, s.Doc)
					if st, ok := s.Type.(*ast.StructType); ok {
						for _, field := range st.Fields.List {
							if len(field.Names) > 0 && field.Names[0].IsExported() {
								add(field.Doc)
							}
						}
					}
				case *ast.ValueSpec:
					if s.Names[0].IsExported() {
						add(s.Doc)
					}
				}
			}
		}
	}
	return all, nil
}

var end = regexp.MustCompile(`[.!?]["')*]*(?:\s+|$)`)

// split returns the sentences of a paragraph with at least five words.
func split(text string) (all []string) {
	text = strings.Join(strings.Fields(text), " ")
	begin := 0
	for _, m := range end.FindAllStringIndex(text, -1) {
		next := strings.TrimLeft(text[m[1]:], "\"(")
		if abbreviated(text[:m[0]+1]) || next != "" && next[0] >= 'a' && next[0] <= 'z' {
			continue
		}
		if s := strings.TrimSpace(text[begin:m[1]]); len(strings.Fields(s)) >= 5 {
			all = append(all, s)
		}
		begin = m[1]
	}
	return all
}

// abbreviated reports whether s ends with an abbreviation and not with a sentence.
func abbreviated(s string) bool {
	return slices.ContainsFunc([]string{"e.g.", "i.e.", "etc.", "vs."}, func(a string) bool { return strings.HasSuffix(s, a) })
}
