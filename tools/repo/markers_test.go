package repo_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A marker is a comment in the prose of a page that names where a statement comes from.
// One that stands directly after a value resolves it, and the test compares the two:
//
//	a day<!-- const jobs.DefaultMaxAge -->             a constant: package.Name, or folder.Name
//	32<!-- default routes[].cache.max_variants -->     the default of a setting of weir proxy
//	0.186<!-- figure docs/lab.md > steady state -->    a number in the row of a table that begins so, with > between
//	                                                   cells; the tables are generated from committed results
//	156<!-- count contract -->                         a count, see counts
//
// One more stands after a sentence on what weir does not have:
//
//	It has no scripting<!-- absent routes[].script -->  there are no such settings
//
// Values are numbers with or without a unit, or words such as "an hour".
var (
	marker      = regexp.MustCompile(`<!-- (const|default|figure|count|absent) (.*?) -->`)
	markedValue = regexp.MustCompile(`(?i)(\d[\d,.]*|\b(?:an?|half an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|sixteen|nineteen|twenty))(?:[ \x60]*([a-z%]+))?\x60?$`)
)

func TestRepoMarkersResolve(t *testing.T) {
	t.Parallel()
	n := 0
	for _, name := range named(t, ".md") {
		page := string(readFile(t, name))
		for _, m := range marker.FindAllStringSubmatchIndex(page, -1) {
			n++
			kind, source := page[m[2]:m[3]], page[m[4]:m[5]]
			if err := checkout(t).checkMarker(kind, source, page[max(0, m[0]-40):m[0]]); err != nil {
				t.Errorf("%s:%d: %s %s: %v", name, 1+strings.Count(page[:m[0]], "\n"), kind, source, err)
			}
		}
	}
	if n < 30 {
		t.Errorf("%d markers; is this test looking?", n)
	}
}

func (r *repository) checkMarker(kind, source, before string) error {
	if kind == "absent" {
		return r.checkAbsent(source)
	}
	m := markedValue.FindStringSubmatch(strings.Join(strings.Fields(before), " "))
	if m == nil {
		return fmt.Errorf("no value directly before the marker (have %q)", before)
	}
	have, err := valueOf(m[1], m[2])
	if err != nil {
		return err
	}
	var want constant.Value
	switch kind {
	case "const":
		want, err = r.constantNamed(source)
	case "default":
		want, err = r.defaultOf(source)
	case "count":
		want, err = r.count(source)
	case "figure":
		return r.checkFigure(source, have)
	}
	if err != nil {
		return err
	}
	if !constant.Compare(have, token.EQL, want) {
		return fmt.Errorf("the page says %q (%v); the code has %v", m[0], have, want)
	}
	return nil
}

var numberWords = map[string]string{
	"a": "1", "an": "1", "half a": "0.5", "half an": "0.5", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6",
	"seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12", "thirteen": "13", "sixteen": "16", "nineteen": "19", "twenty": "20",
}

// units are factors of values: of nanoseconds, of bytes, and of one.
var units = map[string]int64{
	"ns": 1, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9, "second": 1e9, "seconds": 1e9, "m": 60e9, "min": 60e9, "minute": 60e9, "minutes": 60e9,
	"h": 3600e9, "hour": 3600e9, "hours": 3600e9, "d": 86400e9, "day": 86400e9, "days": 86400e9, "week": 7 * 86400e9, "weeks": 7 * 86400e9,
	"b": 1, "bytes": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40, "": 1,
}

// valueOf returns number in its unit. A word that is no unit counts as part of the sentence.
func valueOf(number, unit string) (constant.Value, error) {
	if word, ok := numberWords[strings.ToLower(number)]; ok {
		number = word
	}
	v := constant.MakeFromLiteral(strings.TrimRight(strings.ReplaceAll(number, ",", ""), "."), token.FLOAT, 0)
	factor, ok := units[strings.ToLower(unit)]
	switch {
	case unit == "%":
		return constant.BinaryOp(v, token.QUO, constant.MakeInt64(100)), nil
	case !ok:
		return nil, fmt.Errorf("%q is no unit; the marker comes directly after the value", unit)
	case v.Kind() == constant.Unknown:
		return nil, fmt.Errorf("%q is no number", number)
	}
	return constant.BinaryOp(v, token.MUL, constant.MakeInt64(factor)), nil
}

// constantNamed returns the constant pkg.Name: pkg is the folder of a package, "weir", or
// a package's name that no other has.
func (r *repository) constantNamed(source string) (constant.Value, error) {
	i := strings.LastIndexByte(source, '.')
	if i < 0 {
		return nil, errors.New("want package.Name")
	}
	pkg, name := source[:i], source[i+1:]
	var dir string
	var found ast.Expr
	for _, f := range r.goFiles {
		at := path.Dir(f.path)
		if f.isTest() || f.ast.Name.Name != pkg && at != pkg || strings.Contains(f.path, "testdata/") {
			continue
		}
		if e := constantIn(f.ast, name); e != nil {
			if found != nil {
				return nil, fmt.Errorf("in %s and in %s; name the folder", dir, at)
			}
			dir, found = at, e
		}
	}
	if found == nil {
		return nil, errors.New("there is no such constant")
	}
	return r.evaluate(dir, found)
}

func constantIn(f *ast.File, name string) ast.Expr {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			vs := s.(*ast.ValueSpec)
			for i, n := range vs.Names {
				if n.Name == name && i < len(vs.Values) {
					return vs.Values[i]
				}
			}
		}
	}
	return nil
}

// evaluate returns the value of e, an expression of a package in dir.
func (r *repository) evaluate(dir string, e ast.Expr) (constant.Value, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return constant.MakeFromLiteral(e.Value, e.Kind, 0), nil
	case *ast.ParenExpr:
		return r.evaluate(dir, e.X)
	case *ast.BinaryExpr:
		x, err := r.evaluate(dir, e.X)
		if err != nil {
			return nil, err
		}
		y, err := r.evaluate(dir, e.Y)
		if err != nil {
			return nil, err
		}
		if e.Op == token.SHL {
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, token.SHL, uint(n)), nil
		}
		return constant.BinaryOp(x, e.Op, y), nil
	case *ast.SelectorExpr:
		pkg, ok := e.X.(*ast.Ident)
		factor, known := map[string]int64{
			"Nanosecond": 1, "Microsecond": 1e3, "Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9,
		}[e.Sel.Name]
		if ok && pkg.Name == "time" && known {
			return constant.MakeInt64(factor), nil
		}
		if ok {
			return r.constantNamed(pkg.Name + "." + e.Sel.Name)
		}
	case *ast.Ident:
		return r.constantNamed(dir + "." + e.Name)
	}
	return nil, fmt.Errorf("%T is not evaluated here", e)
}

// Every value that a page calls a default has a marker, so that it cannot go stale.
func TestRepoDefaultsInProseAreMarked(t *testing.T) {
	t.Parallel()
	for _, name := range named(t, ".md") {
		if !hasAnyPrefix(name, []string{"docs/howto", "docs/explain"}) && !slices.Contains([]string{"README.md", "docs/sizing.md", "docs/overview.md"}, name) {
			continue
		}
		for n, page := 0, prose(string(readFile(t, name))); ; {
			m := defaultValue.FindStringIndex(page[n:])
			if m == nil {
				break
			}
			t.Errorf("%s: %q without a marker; put <!-- const … --> or <!-- default … --> after the value", name, page[n+m[0]:n+m[1]])
			n += m[1]
		}
	}
}

var defaultValue = regexp.MustCompile(`(?i)(?:\b\d[\d,.]*|\b(?:an?|half an?|one|two|three))(?: (?:ns|ms|s|min|h|[KMG]i?B|(?:second|minute|hour|day|week)s?|entries|rows|samples))?,?\s+by\s+default`)

// A setting is one of the JSON schema of weir proxy, which a test compares with the code.
type setting struct {
	Default    any                `json:"default"`
	Properties map[string]setting `json:"properties"`
	Items      *setting           `json:"items"`
}

// settingAt returns the setting at a path such as routes[].cache.ttl.
func (r *repository) settingAt(at string) (s setting, ok bool, err error) {
	if err := json.Unmarshal(r.text["docs/reference/proxy.schema.json"], &s); err != nil {
		return s, false, err
	}
	for step := range strings.SplitSeq(at, ".") {
		name, list := strings.CutSuffix(step, "[]")
		if s, ok = s.Properties[name]; !ok {
			return s, false, nil
		}
		if list {
			if s.Items == nil {
				return s, false, fmt.Errorf("%s is no list", name)
			}
			s = *s.Items
		}
	}
	return s, true, nil
}

func (r *repository) defaultOf(at string) (constant.Value, error) {
	s, ok, err := r.settingAt(at)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, errors.New("there is no such setting")
	}
	switch d := s.Default.(type) {
	case float64:
		return constant.ToInt(constant.MakeFloat64(d)), nil
	case string:
		if m := markedValue.FindStringSubmatch(d); m != nil {
			return valueOf(m[1], m[2])
		}
	}
	return nil, fmt.Errorf("its default is %v, which is no value", s.Default)
}

// checkAbsent checks that none of the settings exists, but what would contain each does:
// otherwise a new name of the section would keep the sentence.
func (r *repository) checkAbsent(list string) error {
	for at := range strings.SplitSeq(list, ", ") {
		if _, ok, err := r.settingAt(at); err != nil || ok {
			return cmp.Or(err, fmt.Errorf("weir proxy has the setting %s now", at))
		}
		if i := strings.LastIndexByte(at, '.'); i > 0 {
			if _, ok, err := r.settingAt(at[:i]); (err != nil || !ok) && !strings.HasSuffix(at[:i], ".tls") {
				return cmp.Or(err, fmt.Errorf("there is no %s, so nothing can be absent there", at[:i]))
			}
		}
	}
	return nil
}

// checkFigure checks that a row of a table in a page has the number have. source is
// "page > first cells of the row", with > between cells.
func (r *repository) checkFigure(source string, have constant.Value) error {
	page, row, ok := strings.Cut(strings.ReplaceAll(source, " > ", " | "), " | ")
	if !ok {
		return errors.New("want page > row")
	}
	text, ok := r.text[page]
	if !ok {
		return errors.New("there is no such page")
	}
	found := false
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| "+row) {
			continue
		}
		found = true
		for _, number := range regexp.MustCompile(`\d[\d,]*(?:\.\d+)?`).FindAllString(line, -1) {
			if v, err := valueOf(number, ""); err == nil && constant.Compare(v, token.EQL, have) {
				return nil
			}
		}
	}
	if !found {
		return errors.New("no table has such a row")
	}
	return fmt.Errorf("the row does not have %v", have)
}

// count returns a count of the repository.
func (r *repository) count(what string) (constant.Value, error) {
	n := 0
	switch what {
	case "contract": // the points of the contract
		n = len(regexp.MustCompile(`(?m)^- \*\*[A-Z]+\d+\*\* `).FindAll(r.text[contractPage], -1))
	case "modules":
		n = len(r.modules)
	case "promises": // the rows of the table of promises
		n = strings.Count(string(r.text["bench/results/promises.md"]), "\n| ") - 1
	case "libraries": // its columns, without weir's own two
		head := regexp.MustCompile(`(?m)^\| Promise \|(.*)\|$`).FindSubmatch(r.text["bench/results/promises.md"])
		if head == nil {
			return nil, errors.New("the table has no head")
		}
		n = strings.Count(string(head[1]), "|") + 1 - 2
	case "fuzz":
		for _, f := range r.goFiles {
			for _, d := range f.ast.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && f.isTest() && strings.HasPrefix(fn.Name.Name, "Fuzz") {
					n++
				}
			}
		}
	default:
		return nil, errors.New("there is no such count")
	}
	return constant.MakeInt64(int64(n)), nil
}

func TestRepoMarkersBite(t *testing.T) {
	t.Parallel()
	r := checkout(t)
	for _, tt := range []struct {
		text string
		ok   bool
	}{
		{"for a day<!-- const jobs.DefaultMaxAge -->", true},
		{"for 24 h<!-- const jobs.DefaultMaxAge -->", true},
		{"for an\nhour<!-- const jobs.DefaultMaxAge -->", false},
		{"soon<!-- const jobs.DefaultMaxAge -->", false},
		{"8 MiB<!-- const weirhttp.DefaultMaxObject -->", true},
		{"8 MB<!-- const weirhttp.DefaultMaxObject -->", false},
		{"a day<!-- const jobs.NoSuchName -->", false},
		{"32<!-- default routes[].cache.max_variants -->", true},
		{"33<!-- default routes[].cache.max_variants -->", false},
		{"64 MiB<!-- default cache.memory -->", true},
		{"nothing<!-- absent routes[].script -->", true},
		{"no folder<!-- absent cache.dir -->", false},
		{"nothing<!-- absent rutes[].script -->", false},
		{"0.186<!-- figure docs/lab.md > steady state: commands per Get -->", true},
		{"0.14<!-- figure docs/lab.md > steady state: commands per Get -->", false},
		{"0.14<!-- figure docs/lab.md > no such row -->", false},
		{"102<!-- count contract -->", false},
		{strconv.Itoa(len(r.modules)) + "<!-- count modules -->", true},
	} {
		m := marker.FindStringSubmatchIndex(tt.text)
		err := r.checkMarker(tt.text[m[2]:m[3]], tt.text[m[4]:m[5]], tt.text[:m[0]])
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v; want ok %t", tt.text, err, tt.ok)
		}
	}
}

// The rows of the README's table of promises are those of the published one.
func TestRepoPromisesOfTheREADME(t *testing.T) {
	t.Parallel()
	published := tableAfter(string(readFile(t, "bench/results/promises.md")), "| Promise |")
	quoted := tableAfter(string(readFile(t, "README.md")), "| Promise |")
	if len(quoted) != 1+1+6 {
		t.Fatalf("the README has %d lines of the table; want a head, a rule and six rows", len(quoted))
	}
	for _, row := range quoted[2:] {
		i := slices.IndexFunc(published, func(p []string) bool { return p[0] == row[0] })
		if i < 0 {
			t.Errorf("bench/results/promises.md has no promise %q", row[0])
			continue
		}
		for column, name := range quoted[0][1:] {
			at := slices.Index(published[0], name)
			if at < 0 {
				t.Errorf("bench/results/promises.md has no column %q", name)
				continue
			}
			want := map[byte]string{'k': "yes", '*': "**no**", 'n': "–"}[published[i][at][0]]
			if got := row[column+1]; got != want {
				t.Errorf("%s, %s: %s; want %s", row[0], name, got, want)
			}
		}
	}
}

// tableAfter returns the cells of the table whose first line begins with head.
func tableAfter(page, head string) (rows [][]string) {
	at := strings.Index(page, head)
	if at < 0 {
		return nil
	}
	for line := range strings.Lines(page[at:]) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}
