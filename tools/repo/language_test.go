package repo_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
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
	unless  func(s string, match []int) bool      // nil: always counts
	in      func(file string, kind textKind) bool // nil: counts in every text
}

func plainly(re, instead string) phrase {
	return phrase{re: regexp.MustCompile(`(?i)\b(?:` + re + `)\b`), instead: instead}
}

// only restricts a phrase to some texts.
func (ph phrase) only(in func(file string, kind textKind) bool) phrase { ph.in = in; return ph }

// A textKind is where the text of an excerpt stands.
type textKind int

const (
	otherText textKind = iota
	errorText          // a string for an error, outside of tests
	logText            // a message of a log
	failText           // a message of a log at level error
	fieldText          // a comment of an exported field of a package that users import
)

func errorsAndLogs(_ string, kind textKind) bool {
	return kind == errorText || kind == logText || kind == failText
}

// firstRead reports whether a text is among those that an operator or a new reader meets first.
func firstRead(file string, kind textKind) bool {
	return errorsAndLogs(file, kind) || file == "README.md" || file == "docs/howto/start.md" ||
		strings.HasPrefix(file, "console/assets/js/") || strings.HasPrefix(file, "console/assets/css/")
}

// neverWritten are the phrases that no page, comment or string may have.
var neverWritten = []phrase{
	plainly(`to be had`, "available"),
	plainly(`(?:is|are|was|were|be|been|being) (?:told|asked)`, "the verb of what happens: receives, learns, is called, is queried, is requested"),
	{re: regexp.MustCompile(`(?:^|[.!?:;|] |\n\n|\*\*)Who [a-z]+`), instead: "a noun: a client that …, the caller that …", unless: question},
	plainly(`those who`, "clients that, callers that"),
	plainly(`who(?:so)?ever`, "any caller that, a client that"),
	plainly(`in the air`, "in flight"),
	plainly(`the door`, "the listener, the entrance of the process, admission"),
	{re: regexp.MustCompile(`(?i)\ba second\b`), instead: "per second, /s", unless: notARate},
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
	{re: regexp.MustCompile(`(?i)\btaken for\b`), instead: "mistaken for, treated as", unless: ofAB},
	plainly(`than what`, "than the one that …"),
	plainly(`calls? (?:of|at) (?:(?:an?|the|its|their|each|every|one|any|this) )?(?:source|origin|service|upstream|backend)s?`, "calls to the source; in tables: upstream calls"),
	plainly(`by (?:RFC \d+|its Date|the route's rate)`, "conforms to, according to, at the rate of"),
	plainly(`gets? back`, "receives; is refilled, is returned"),
	{re: regexp.MustCompile(`(?i)\bgets [^.!?;:|]*\bgets\b`), instead: "receives, returns"},
	plainly(`good answers?|most at once|worked off|a crowd at`, "successful responses, peak concurrency, drained, a stampede on"),
	plainly(`behaviours?|colour(?:s|ed|less|ing)?|honour(?:s|ed|ing)?|favour(?:s|ed|ite|ites|ing)?|neighbour(?:s|ing)?|centre[sd]?|catalogues?|cancell(?:ed|ing)|(?:recogni|authori|seriali|normali|initiali|organi)s(?:e|es|ed|ing|ation)`, "the American spelling"),
	plainly(`at once`, "immediately, or concurrently").only(firstRead),
	{re: regexp.MustCompile(`\b[Ii]s for [A-Z-]`), instead: "applies to, can only be used with", in: func(_ string, kind textKind) bool { return kind == errorText }},
	{re: regexp.MustCompile(`, (?:the (?:old|new|others?|current|rest)|all|new|going|its|they|it) `), instead: "a semicolon, or a second field", in: errorsAndLogs},
	{re: regexp.MustCompile(`^(?:until|by|with|likewise|while|because|for|since|without|to make|of (?:these|those|them)|of [A-Z]\w+[,:;]|of [A-Z]\w+$)\b`), instead: "a noun phrase or a sentence", in: func(_ string, kind textKind) bool { return kind == fieldText }},
	{re: regexp.MustCompile(`^.+$`), instead: "what failed", unless: saysFailure, in: func(_ string, kind textKind) bool { return kind == failText }},
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
	{re: regexp.MustCompile(`(?:^|[.!?:;|] |\n\n)What (?:[a-z-]+ ){1,7}is\b`), instead: "a noun as the subject", unless: question},
	plainly(`at once`, "immediately, or concurrently"),
	plainly(`th(?:ose|at) of`, "the noun again"),
	plainly(`(?:is|are) one (?:call|load|query|request)`, "cause one call, share one call"),
	{re: regexp.MustCompile(`, too[.;)]|, too$`), instead: "also, before the verb"},
	plainly(`likewise`, "also, or the same sentence again"),
	plainly(`overtak(?:e|es|en|ing)|overtook|beats?|wins? over`, "takes precedence over"),
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

// saysFailure reports whether a message at level error says that something failed. A
// prefix before the text of an error does.
func saysFailure(s string, _ []int) bool {
	return regexp.MustCompile(`(?i)fail|cannot|could not|panic|invalid|missing|:$`).MatchString(s)
}

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
	kind textKind
}

// find calls got with each match of one of phrases in p, an excerpt of file.
func (p excerpt) find(file string, phrases []phrase, got func(line int, match, instead string)) {
	lower := strings.ToLower(p.text)
	for _, ph := range phrases {
		if !strings.Contains(lower, literal(ph.re)) || ph.in != nil && !ph.in(file, p.kind) {
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
		p.find(name, neverWritten, func(line int, match, instead string) {
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
		p.find(name, rarelyWritten, func(int, string, string) { got[path.Dir(name)]++ })
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
		"the calls of the source":              1,
		"Calls at its origin":                  1,
		"calls to the source":                  0,
		"a cache by RFC 9111":                  1,
		"a client gets back its unit":          1,
		"it gets one, and the next gets two":   1,
		"it gets one. The next gets two":       0,
		"good answers, worked off":             2,
		"honoured behaviour":                   2,
		"it runs at once":                      0,
	} {
		n := 0
		excerpt{line: 1, text: text}.find("x.go", neverWritten, func(int, string, string) { n++ })
		if n != want {
			t.Errorf("%q has %d of the phrases; want %d", text, n, want)
		}
	}
}

// Each kind of text is recognized in code, and has its own phrases.
func TestRepoLanguageOfMessagesBites(t *testing.T) {
	t.Parallel()
	const code = `package x

import "errors"

// An Exported type.
type Exported struct {
	A int // until their turn
	B int // of these, in the background
	C int // calls in the background
	d int // until their turn
}

var (
	e1 = errors.New("x: 3 tags at once")
	e2 = fmt.Errorf("--state: is for --all %d", 1)
	e3 = errors.New("x: can only be used with --all")
)

func (e *Exported) Error() string { return "runs at once" }

func log() {
	o.logger.Error("the new file is here")
	o.logger.Error("reading the new file failed")
	o.logger.Warn("the file is bad, the old one stays")
	page.Error("the new file is here")
	other("at once it runs")
}
`
	f := goFile{path: "weirhttp/x.go", module: ".", text: []byte(code), fset: token.NewFileSet()}
	var err error
	if f.ast, err = parser.ParseFile(f.fset, f.path, code, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, p := range f.excerpts() {
		p.find(f.path, neverWritten, func(line int, _, _ string) { lines = append(lines, line) })
	}
	slices.Sort(lines)
	if want := []int{7, 8, 14, 15, 19, 22, 24}; !slices.Equal(lines, want) {
		t.Errorf("phrases in lines %v; want %v", lines, want)
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
	kinds := f.textKinds()
	add := func(n ast.Node, text string) {
		for _, p := range block(text, f.fset.Position(n.Pos()).Line) {
			p.kind = kinds[n]
			all = append(all, p)
		}
	}
	for _, g := range f.ast.Comments {
		add(g, g.Text())
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(s, " ") {
				add(lit, s)
			}
		}
		return true
	})
	return all
}

// textKinds returns the kinds of the strings and comments in f that have one.
func (f goFile) textKinds() map[ast.Node]textKind {
	kinds := make(map[ast.Node]textKind)
	if f.isTest() || strings.HasSuffix(path.Dir(f.path), "test") || f.module == "lab" || f.module == "tools" {
		return kinds
	}
	users := importable(f, path.Dir(f.path))
	mark := func(in ast.Node, kind textKind) {
		ast.Inspect(in, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && kinds[lit] == otherText {
				kinds[lit] = kind
			}
			return true
		})
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if kind := messageOf(n.Fun); kind != otherText && len(n.Args) > 0 {
				for _, arg := range n.Args[:min(len(n.Args), 2)] { // some have a context, or a position, before the text
					mark(arg, kind)
				}
			}
		case *ast.FuncDecl:
			if n.Name.Name == "Error" && n.Recv != nil && n.Body != nil {
				mark(n.Body, errorText)
			}
		case *ast.TypeSpec:
			if st, ok := n.Type.(*ast.StructType); ok && users && n.Name.IsExported() {
				for _, field := range st.Fields.List {
					if len(field.Names) > 0 && field.Names[0].IsExported() {
						kinds[field.Doc], kinds[field.Comment] = fieldText, fieldText
					}
				}
			}
		}
		return true
	})
	return kinds
}

// messageOf returns the kind of text that the function fun takes.
func messageOf(fun ast.Expr) textKind {
	name := ""
	switch fun := fun.(type) {
	case *ast.Ident:
		name = fun.Name
	case *ast.SelectorExpr:
		name = fun.Sel.Name
		if x, ok := fun.X.(*ast.Ident); ok && x.Name == "errors" && name == "New" {
			return errorText
		}
	}
	switch {
	case strings.HasSuffix(strings.ToLower(name), "errorf"):
		return errorText
	case (name == "Error" || name == "ErrorContext") && isLogger(fun):
		return failText
	case name == "Warn" || name == "Info" || name == "Debug" || name == "WarnContext" || name == "InfoContext" || name == "LogAttrs":
		return logText
	}
	return otherText
}

var (
	generated = regexp.MustCompile(`(?s)<!-- lab:.*?<!-- /lab -->`)
	quotation = regexp.MustCompile(`"[^"\n]*(?:\n[^"\n]+){0,3}"|“[^”]*”|(?m:^> .*$)`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```")
	linkTo    = regexp.MustCompile(`\]\([^)\s]+\)`)
	codeSpan  = regexp.MustCompile("`[^`\n]*`")
	marks     = regexp.MustCompile(`(?m)^[ \t]*(?:#+|//+|\*|\*/|--|- |[0-9]+\.) ?`)
)

// isLogger reports whether fun is a method of a variable that is called a log.
func isLogger(fun ast.Expr) bool {
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	name := ""
	switch x := sel.X.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	return name == "l" || name == "to" || strings.HasSuffix(strings.ToLower(name), "log") || strings.HasSuffix(strings.ToLower(name), "logger")
}

// paragraphs returns the prose of a page. Decisions may quote.
func paragraphs(name, page string) []excerpt {
	blank := func(re *regexp.Regexp, s, with string) string {
		return re.ReplaceAllStringFunc(s, func(m string) string { return with + strings.Repeat("\n", strings.Count(m, "\n")) })
	}
	page = blank(generated, page, "")
	page = blank(fenced, page, "")
	page = blank(codeSpan, page, "x")
	page = blank(linkTo, page, "]")
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
			all = append(all, excerpt{line: line + lead, text: strings.Join(strings.Fields(s), " ")})
		}
		line += strings.Count(part, "\n") + 2
	}
	slices.SortFunc(all, func(a, b excerpt) int { return cmp.Compare(a.line, b.line) })
	return all
}
