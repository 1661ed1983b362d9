package repo_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every Go block in a Markdown file is code that is compiled elsewhere. A
// comment on the line before it names the place:
//
//	<!-- example: example_test.go#ExampleNew -->  the body of that Example, as go doc shows it
//	<!-- example: example_test.go#func load -->   the whole function, as it stands there
//	<!-- example: example_test.go#type Order, func load -->   declarations, in this order
//	<!-- example: example_test.go -->             the whole file
//	<!-- newuser -->                              a program that tools/newuser builds and runs
//
// Paths are from the root; -update writes the blocks anew. The documents under docs/adr, and docs/design.md,
// may contain sketches: their Go blocks need no comment.
func TestRepoSnippetsEqualExamples(t *testing.T) {
	t.Parallel()
	for _, name := range named(t, ".md") {
		sketches := strings.HasPrefix(name, "docs/adr/") || name == "docs/design.md"
		for _, b := range goBlocks(string(readFile(t, name))) {
			if err := checkout(t).checkBlock(b, name, sketches); err != nil && !*update {
				t.Errorf("%s:%d: %v", name, b.line, err)
			}
		}
		if *update {
			if err := checkout(t).updateBlocks(name); err != nil {
				t.Error(err)
			}
		}
	}
}

// updateBlocks writes the examples into the Go blocks of a page.
func (r *repository) updateBlocks(name string) error {
	var faults []error
	block := regexp.MustCompile("(?ms)^<!-- example: (\\S[^\n]*) -->\n```go\n(.*?)^```$")
	page := block.ReplaceAllFunc(r.text[name], func(m []byte) []byte {
		source := string(block.FindSubmatch(m)[1])
		code, err := r.example(source)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %s: %w", name, source, err))
			return m
		}
		return []byte("<!-- example: " + source + " -->\n```go\n" + strings.TrimSpace(code) + "\n```")
	})
	if bytes.Equal(page, r.text[name]) {
		return errors.Join(faults...)
	}
	return errors.Join(append(faults, os.WriteFile(onDisk(name), page, 0o666))...)
}

func (r *repository) checkBlock(b goBlock, file string, sketches bool) error {
	switch {
	case b.source == "" && sketches:
		return nil
	case b.source == "newuser" && file == "README.md":
		return nil
	case strings.HasPrefix(b.source, "example: "):
		want, err := r.example(strings.TrimPrefix(b.source, "example: "))
		if err != nil {
			return err
		}
		if strings.TrimSpace(b.code) != strings.TrimSpace(want) {
			return fmt.Errorf("the block differs from %s, which is\n%s", b.source, want)
		}
		return nil
	}
	return fmt.Errorf("no comment before the Go block says where it is compiled (have %q)", b.source)
}

// A goBlock is a fenced Go block of a Markdown file.
type goBlock struct {
	line   int    // of its fence
	source string // the text of the comment on the line before, or ""
	code   string
}

func goBlocks(markdown string) []goBlock {
	var blocks []goBlock
	comment := regexp.MustCompile(`^<!-- (.*) -->$`)
	previous, fence := "", ""
	n := 0
	for line := range strings.Lines(markdown) {
		n++
		line = strings.TrimRight(line, "\n")
		switch {
		case fence == "" && strings.HasPrefix(line, "```"):
			fence = line
			if fence == "```go" {
				b := goBlock{line: n}
				if m := comment.FindStringSubmatch(previous); m != nil {
					b.source = m[1]
				}
				blocks = append(blocks, b)
			}
		case fence != "" && line == "```":
			fence = ""
		case fence == "```go":
			blocks[len(blocks)-1].code += line + "\n"
		}
		previous = line
	}
	return blocks
}

// example returns the code named by "file.go#Func" or "file.go": the body of
// the function without its braces, or the whole file; or the declarations named by
// "file.go#type T, func F".
func (r *repository) example(source string) (string, error) {
	file, name, whole := strings.Cut(source, "#")
	b, ok := r.text[file]
	if !ok {
		return "", fmt.Errorf("%s: %w", file, fs.ErrNotExist)
	}
	if !whole {
		return string(b), nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, b, parser.ParseComments)
	if err != nil {
		return "", err
	}
	if strings.Contains(name, " ") {
		return declarations(fset, f, b, name)
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == name {
			body := b[fset.Position(fn.Body.Lbrace).Offset+1 : fset.Position(fn.Body.Rbrace).Offset]
			// gofmt would keep the indentation of a list of statements.
			body = bytes.ReplaceAll(bytes.Trim(body, "\n"), []byte("\n\t"), []byte("\n"))
			out, err := format.Source(bytes.TrimPrefix(body, []byte("\t")))
			return string(out), err
		}
	}
	return "", fmt.Errorf("%s has no function %s", file, name)
}

// declarations returns the text of the declarations in list, such as "type T, func F".
func declarations(fset *token.FileSet, f *ast.File, text []byte, list string) (string, error) {
	var all []string
	for wanted := range strings.SplitSeq(list, ", ") {
		n := len(all)
		for _, d := range f.Decls {
			if nameOf(d) == wanted {
				all = append(all, string(text[fset.Position(d.Pos()).Offset:fset.Position(d.End()).Offset]))
			}
		}
		if len(all) == n {
			return "", fmt.Errorf("it has no %s", wanted)
		}
	}
	return strings.Join(all, "\n\n") + "\n", nil
}

// nameOf returns the kind and the first name of a declaration: "func F", "func T.Method",
// "type T", "var v".
func nameOf(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return "func " + d.Name.Name
		}
		return "func " + strings.TrimPrefix(typeName(d.Recv.List[0].Type), "*") + "." + d.Name.Name
	case *ast.GenDecl:
		switch s := d.Specs[0].(type) {
		case *ast.TypeSpec:
			return "type " + s.Name.Name
		case *ast.ValueSpec:
			return d.Tok.String() + " " + s.Names[0].Name
		}
	}
	return ""
}

func TestRepoSnippetRulesBite(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		markdown string
		ok       bool
	}{
		{"no comment", "```go\nx := 1\n```\n", false},
		{"no such file", "<!-- example: no.go -->\n```go\nx := 1\n```\n", false},
		{"no such function", "<!-- example: tools/repo/docs_test.go#No -->\n```go\nx := 1\n```\n", false},
		{"other code", "<!-- example: tools/repo/docs_test.go#snippet -->\n```go\nx := 2\n```\n", false},
		{"comment too far away", "<!-- example: tools/repo/docs_test.go#snippet -->\n\n```go\nreturn 1\n```\n", false},
		{"equal", "<!-- example: tools/repo/docs_test.go#snippet -->\n```go\nreturn 1\n```\n", true},
		{"declaration", "<!-- example: tools/repo/docs_test.go#func snippet -->\n```go\nfunc snippet() int {\n\treturn 1\n}\n```\n", true},
		{"no such declaration", "<!-- example: tools/repo/docs_test.go#type snippet -->\n```go\nfunc snippet() int {\n\treturn 1\n}\n```\n", false},
		{"not Go", "```sh\nmake test\n```\n", true},
	}
	for _, tt := range tests {
		var err error
		for _, b := range goBlocks(tt.markdown) {
			err = checkout(t).checkBlock(b, "docs/howto/x.md", false)
		}
		if (err == nil) != tt.ok {
			t.Errorf("%s: checkBlock = %v; want ok %t", tt.name, err, tt.ok)
		}
	}
}

// snippet is quoted by TestRepoSnippetRulesBite.
func snippet() int {
	return 1
}

func TestRepoLinksResolve(t *testing.T) {
	t.Parallel()
	if snippet() != 1 {
		t.Fatal("snippet was changed")
	}
	for _, name := range named(t, ".md") {
		for _, l := range links(t, name) {
			if strings.HasPrefix(l.target, "/") || strings.HasPrefix(l.at, "..") {
				t.Errorf("%s: link to %s leaves the repository", name, l.target)
				continue
			}
			if !checkout(t).has(l.at) {
				t.Errorf("%s: link to %s: no such file", name, l.target)
				continue
			}
			if l.anchor != "" && path.Ext(l.at) == ".md" && !slices.Contains(anchors(string(readFile(t, l.at))), l.anchor) {
				t.Errorf("%s: link to %s: no such heading", name, l.target)
			}
		}
	}
}

// The README can be read in a few minutes; everything else is a page.
func TestRepoReadmeIsShort(t *testing.T) {
	t.Parallel()
	const most = 150
	if n := bytes.Count(readFile(t, "README.md"), []byte("\n")); n > most {
		t.Errorf("README.md has %d lines; want at most %d", n, most)
	}
}

// Every page is reachable by links from README.md, except the decisions, which
// are listed by folder.
func TestRepoPagesAreReachable(t *testing.T) {
	t.Parallel()
	found := map[string]bool{"README.md": true}
	for open := []string{"README.md"}; len(open) > 0; open = open[1:] {
		for _, l := range links(t, open[0]) {
			if path.Ext(l.at) == ".md" && !found[l.at] {
				found[l.at] = true
				open = append(open, l.at)
			}
		}
	}
	for _, name := range named(t, ".md") {
		if !found[name] && path.Dir(name) != "docs/adr" && !hasAnyPrefix(name, []string{".github", "console/assets/vendor"}) {
			t.Errorf("%s: no chain of links from README.md leads here", name)
		}
	}
}

// A pageLink is a link within the repository.
type pageLink struct {
	target string // as written
	at     string // the file, from the root
	anchor string
}

func links(t *testing.T, name string) (all []pageLink) {
	t.Helper()
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose(string(readFile(t, name))), -1) {
		file, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
			continue
		}
		at := name
		if file != "" {
			at = path.Join(path.Dir(name), file)
		}
		all = append(all, pageLink{m[1], at, anchor})
	}
	return all
}

// anchors returns GitHub's anchors of the headings.
func anchors(markdown string) (all []string) {
	markdown = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(markdown, "")
	linked := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	dropped := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.*?) *$`).FindAllStringSubmatch(markdown, -1) {
		text := dropped.ReplaceAllString(strings.ToLower(linked.ReplaceAllString(m[1], "$1")), "")
		all = append(all, strings.ReplaceAll(text, " ", "-"))
	}
	return all
}

// prose returns the text outside fenced blocks and code spans.
func prose(markdown string) string {
	markdown = regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(markdown, "")
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(markdown, "")
}

func TestRepoDecisionsAreNumbered(t *testing.T) {
	t.Parallel()
	var names []string
	for _, name := range named(t, ".md") {
		if path.Dir(name) == "docs/adr" {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	form := regexp.MustCompile(`^\d{4}-[a-z0-9]+(-[a-z0-9]+)*\.md$`)
	for i, name := range names {
		// A gap is a decision in another branch; two with the same number would be
		// cited as one.
		if !form.MatchString(name) || i > 0 && name[:4] == names[i-1][:4] {
			t.Errorf("docs/adr/%s; want a number of its own and a name like 0001-title-in-small-letters.md", name)
		}
		text := string(readFile(t, "docs/adr/"+name))
		for _, part := range []string{"## Context", "## Decision", "## Rejected", "## Consequences"} {
			if !strings.Contains(text, "\n"+part+"\n") {
				t.Errorf("docs/adr/%s has no part %q", name, part)
			}
		}
	}
	if len(names) == 0 {
		t.Error("no decisions in docs/adr")
	}
}

func TestRepoChangelogHasUnreleased(t *testing.T) {
	t.Parallel()
	if !bytes.Contains(readFile(t, "CHANGELOG.md"), []byte("\n## [Unreleased]\n")) {
		t.Error("CHANGELOG.md has no [Unreleased] part")
	}
}
