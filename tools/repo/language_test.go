package repo_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A phrase is wording that needs a second reading, with what to write instead.
type phrase struct {
	re      *regexp.Regexp
	instead string
	unless  func(s string, match []int) bool // nil: always counts
}

func plainly(re, instead string) phrase {
	return phrase{re: regexp.MustCompile(`(?i)\b(?:` + re + `)\b`), instead: instead}
}

// neverWritten are the phrases that no page, comment or string may have.
var neverWritten = []phrase{
	plainly(`to be had`, "available"),
	plainly(`(?:is|are|was|were|be|been|being) (?:told|asked)`, "the verb of what happens: receives, learns, is called, is queried, is requested"),
	{regexp.MustCompile(`(?:^|[.!?:;|] |\n\n|\*\*)Who [a-z]+`), "a noun: a client that …, the caller that …", question},
	plainly(`those who`, "clients that, callers that"),
	plainly(`who(?:so)?ever`, "any caller that, a client that"),
	plainly(`in the air`, "in flight"),
	plainly(`the door`, "the listener, the entrance of the process, admission"),
	{regexp.MustCompile(`(?i)\ba second\b`), "per second, /s", notARate},
	plainly(`for ever`, "forever, without limit, indefinitely"),
	plainly(`(?:see|sees|saw|seen) to it`, "makes sure, ensures"),
	plainly(`heed(?:s|ed|ing)?`, "follow, obey, honour"),
	plainly(`dear(?:er|est|ly)?`, "expensive"),
	plainly(`wish(?:es|ed|ing)?`, "want, request, setting"),
	plainly(`in vain`, "without success, for nothing"),
	plainly(`merits?`, "advantage, benefit"),
	plainly(`asked of`, "required of, sent to"),
	plainly(`(?:is|are|was|were|be|been) made of`, "consists of, contains, is built from"),
	plainly(`(?:go|goes|went|gone|going) by`, "uses, follows, passes"),
	{regexp.MustCompile(`(?i)\btaken for\b`), "mistaken for, treated as", ofAB},
	plainly(`than what`, "than the one that …"),
}

// rarelyWritten are phrases that are sometimes right; their count per package
// may only fall.
var rarelyWritten = []phrase{
	plainly(`an answer`, "a response"),
	plainly(`nobody`, "no caller, no client"),
	plainly(`everybody`, "all callers"),
	plainly(`says so`, "reports it"),
	plainly(`of (?:its|their) own`, "its own …, a separate …"),
	plainly(`in place of`, "instead of"),
	plainly(`by (?:itself|themselves)`, "alone, automatically"),
	plainly(`beside (?:it|them)`, "next to it, with it"),
	{regexp.MustCompile(`(?:^|[.!?:;|] |\n\n)What (?:[a-z-]+ ){1,7}is\b`), "a noun as the subject", question},
}

// literal returns a string that is in every match of re, in lower case.
func literal(re *regexp.Regexp) string {
	if s, ok := literals.Load(re); ok {
		return s.(string)
	}
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		panic(err)
	}
	longest := ""
	var visit func(*syntax.Regexp)
	visit = func(part *syntax.Regexp) {
		switch part.Op {
		case syntax.OpConcat, syntax.OpCapture:
			for _, sub := range part.Sub {
				visit(sub)
			}
		case syntax.OpLiteral:
			if s := strings.ToLower(string(part.Rune)); len(s) > len(longest) {
				longest = s
			}
		}
	}
	visit(parsed)
	literals.Store(re, longest)
	return longest
}

var literals sync.Map // *regexp.Regexp to string

// question reports whether the sentence of the match ends with a question mark.
func question(s string, match []int) bool {
	end := strings.IndexAny(s[match[1]:], ".?!")
	return end >= 0 && s[match[1]+end] == '?'
}

// ofAB reports whether the match is in the output of ab, which the lab parses.
func ofAB(s string, match []int) bool { return strings.HasPrefix(s[match[1]:], " tests:") }

// notARate reports whether "a second" is a length of time, or one after the
// first. A rate follows what is counted, and nothing that "second" could count
// comes after it.
func notARate(s string, match []int) bool {
	before, after := s[:match[0]], s[match[1]:]
	if next := regexp.MustCompile(`^ ([a-z]+)`).FindStringSubmatch(after); next != nil && !slices.Contains(functionWords, next[1]) {
		return true
	}
	last := regexp.MustCompile(`([\pL\d%]+)[ ]$`).FindStringSubmatch(before)
	return last == nil && strings.TrimSpace(before) != "" || last != nil && slices.Contains(beforeALength, strings.ToLower(last[1]))
}

var (
	functionWords = strings.Fields("a an and are as at before but by each for from if in is it no of on or over per so than that the then there this to when where which while with")
	beforeALength = strings.Fields("a about above after against and apart as at be before below beyond but by costs every except exceed exceeds for from half has have in into is last lasts least less lose loses " +
		"more most nearly needs of on once only or over past quarter rest seconds some spend spends take takes than the third to took under until up wait waits want was whole with within without refuses returns sends gets adds not")
)

// An excerpt is text that people read, with the line it begins at.
type excerpt struct {
	line int
	text string
}

// find calls got with each match of one of phrases in p.
func (p excerpt) find(phrases []phrase, got func(line int, match, instead string)) {
	lower := strings.ToLower(p.text)
	for _, ph := range phrases {
		if !strings.Contains(lower, literal(ph.re)) {
			continue // an expression is slow, and few texts can match it
		}
		for _, m := range ph.re.FindAllStringIndex(p.text, -1) {
			if ph.unless == nil || !ph.unless(p.text, m) {
				got(p.line, strings.Trim(p.text[m[0]:m[1]], ".!?:;|* \n"), ph.instead)
			}
		}
	}
}

// No page, comment or string contains a phrase of neverWritten.
func TestRepoLanguage(t *testing.T) {
	t.Parallel()
	n := 0
	eachText(t, func(name string, p excerpt) {
		n++
		p.find(neverWritten, func(line int, match, instead string) {
			t.Errorf("%s:%d: %q; rather: %s", name, line, match, instead)
		})
	})
	if n < 10000 {
		t.Errorf("%d texts; is this test looking?", n)
	}
}

const languageCounts = "tools/repo/testdata/language.txt"

// The counts of rarelyWritten may only fall: -update writes the current ones.
func TestRepoLanguageImproves(t *testing.T) {
	t.Parallel()
	got := make(map[string]int)
	eachText(t, func(name string, p excerpt) {
		p.find(rarelyWritten, func(int, string, string) { got[path.Dir(name)]++ })
	})
	if *update {
		var b strings.Builder
		for _, dir := range slices.Sorted(maps.Keys(got)) {
			fmt.Fprintf(&b, "%s %d\n", dir, got[dir])
		}
		if err := os.WriteFile(onDisk(languageCounts), []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := make(map[string]int)
	for line := range strings.Lines(string(readFile(t, languageCounts))) {
		dir, count, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatalf("%s: %q: %v", languageCounts, line, err)
		}
		want[dir] = n
	}
	for dir, n := range got {
		if n > want[dir] {
			t.Errorf("%s: %d of the phrases that become fewer, %d before", dir, n, want[dir])
		}
	}
	for dir, n := range want {
		if got[dir] < n {
			t.Errorf("%s: %d of the phrases that become fewer, %d before; go test ./tools/repo -run TestRepoLanguage -update keeps it so", dir, got[dir], n)
		}
	}
}

// The phrases are found, and similar harmless text is not.
func TestRepoLanguageBites(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"Who waits is woken":                   1,
		"It ends. Who asks gets it.":           1,
		"Who may read this?":                   0,
		"It does 400 requests a second.":       1,
		"at 3 a second, or less":               1,
		"It waits a second and goes on":        0,
		"a second request joins it":            0,
		"half a second of it":                  0,
		"the loader is asked once":             1,
		"a client asked for it":                0,
		"the lease is dear, and kept for ever": 2,
		"Limits that nobody heeded":            1,
	} {
		n := 0
		excerpt{1, text}.find(neverWritten, func(int, string, string) { n++ })
		if n != want {
			t.Errorf("%q has %d of the phrases; want %d", text, n, want)
		}
	}
}

// eachText calls visit with the text that people read in the repository: pages
// without code, generated figures and quotations; comments and strings of the
// code; and whole files of configuration, styles and templates.
func eachText(t *testing.T, visit func(name string, p excerpt)) {
	t.Helper()
	checkout(t)
	for _, text := range readTexts() {
		for _, p := range text.excerpts {
			visit(text.file, p)
		}
	}
}

// A fileText is the text in a file that people read.
type fileText struct {
	file     string
	excerpts []excerpt
}

// readTexts needs a repository that is loaded.
var readTexts = sync.OnceValue(func() (all []fileText) {
	const own = "tools/repo/language_test.go" // it has the phrases
	r, _ := load()
	for _, name := range r.files {
		if strings.HasPrefix(name, "lab/results/") || strings.Contains(name, "testdata/fuzz/") {
			continue
		}
		base := path.Base(name)
		switch path.Ext(name) {
		case ".md":
			all = append(all, fileText{name, paragraphs(name, string(r.text[name]))})
		case ".html", ".js", ".css", ".yaml", ".yml", ".conf", ".vcl", ".lua", ".service":
			all = append(all, fileText{name, block(string(r.text[name]), 1)})
		}
		if base == "Makefile" || base == "Dockerfile" || base == "Caddyfile" {
			all = append(all, fileText{name, block(string(r.text[name]), 1)})
		}
	}
	for _, f := range r.goFiles {
		if f.path != own {
			all = append(all, fileText{f.path, f.excerpts()})
		}
	}
	return all
})

// excerpts returns the comments and the strings of a Go file.
func (f goFile) excerpts() (all []excerpt) {
	for _, g := range f.ast.Comments {
		all = append(all, block(g.Text(), f.fset.Position(g.Pos()).Line)...)
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(s, " ") {
				all = append(all, block(s, f.fset.Position(lit.Pos()).Line)...)
			}
		}
		return true
	})
	return all
}

var (
	generated = regexp.MustCompile(`(?s)<!-- lab:.*?<!-- /lab -->`)
	quotation = regexp.MustCompile(`"[^"\n]*(?:\n[^"\n]+){0,3}"|“[^”]*”|(?m:^> .*$)`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```")
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	marks     = regexp.MustCompile(`(?m)^[ \t]*(?:#+|//+|\*|\*/|--|- |[0-9]+\.) ?`)
)

// paragraphs returns the prose of a page. Decisions may quote.
func paragraphs(name, page string) []excerpt {
	blank := func(re *regexp.Regexp, s, with string) string {
		return re.ReplaceAllStringFunc(s, func(m string) string { return with + strings.Repeat("\n", strings.Count(m, "\n")) })
	}
	page = blank(generated, page, "")
	page = blank(fenced, page, "")
	page = blank(codeSpan, page, "x")
	if strings.HasPrefix(name, "docs/adr/") {
		page = blank(quotation, page, "x")
	}
	return block(page, 1)
}

// block splits text at its empty lines, joins the lines of each part, and removes
// the marks of comments, lists and headings.
func block(text string, line int) (all []excerpt) {
	for part := range strings.SplitSeq(text, "\n\n") {
		if s := strings.TrimSpace(marks.ReplaceAllString(part, "")); s != "" {
			lead := len(part) - len(strings.TrimLeft(part, "\n"))
			all = append(all, excerpt{line + lead, strings.Join(strings.Fields(s), " ")})
		}
		line += strings.Count(part, "\n") + 2
	}
	slices.SortFunc(all, func(a, b excerpt) int { return cmp.Compare(a.line, b.line) })
	return all
}
