package rawcorpus

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A row is one paragraph of a file in testdata.
type row struct {
	file, name string
	line       int
	values     map[string][]string
}

// get returns the only value of a key, empty for none.
func (r row) get(key string) string {
	if v := r.values[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (r row) has(key string) bool { return len(r.values[key]) > 0 }

func (r row) String() string { return fmt.Sprintf("%s:%d %s", r.file, r.line, r.name) }

// The keys of each kind of row, in addition to those of all rows.
var (
	requestKeys = []string{"want", "origin", "sees", "end", "warm", "only"}
	answerKeys  = []string{"ask", "sees", "stored", "reuse", "end", "reset", "once", "only"}
	frameKeys   = []string{"want", "origin", "sees", "only", "warm"}
)

// rows reads all rows of the files that match a pattern. Each key of a row must be a
// known one.
func rows(t testing.TB, pattern string, known ...string) []row {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob(%s) = %v, %v", pattern, files, err)
	}
	keys := map[string]bool{"send": true, "rfc": true, "why": true, "each": true}
	for _, k := range known {
		keys[k] = true
	}
	names := map[string]bool{}
	var all []row
	for _, name := range files {
		for _, r := range expand(readRows(t, name)) {
			for k := range r.values {
				if !keys[k] {
					t.Fatalf("%v: unknown key %q", r, k)
				}
			}
			if !r.has("send") || !r.has("rfc") {
				t.Fatalf("%v: needs send and rfc", r)
			}
			if names[r.name] {
				t.Fatalf("%v: the name is taken", r)
			}
			names[r.name] = true
			all = append(all, r)
		}
	}
	return all
}

// expand replaces each row that has "each" with one row per text.
func expand(all []row) (out []row) {
	for _, r := range all {
		if !r.has("each") {
			out = append(out, r)
			continue
		}
		for _, text := range strings.Split(r.get("each"), "  ") {
			one := row{r.file, r.name + ": " + text, r.line, map[string][]string{}}
			for k, values := range r.values {
				for _, v := range values {
					one.values[k] = append(one.values[k], strings.ReplaceAll(v, "{}", text))
				}
			}
			out = append(out, one)
		}
	}
	return out
}

func readRows(t testing.TB, name string) (all []row) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r *row
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		line := s.Text()
		switch key, value, _ := strings.Cut(line, " "); {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			r = nil
		case r == nil:
			all = append(all, row{filepath.Base(name), line, n, map[string][]string{}})
			r = &all[len(all)-1]
		default:
			r.values[key] = append(r.values[key], strings.TrimLeft(value, " "))
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return all
}

var statuses = regexp.MustCompile(`^([0-9]{3}|broken|none)(\|([0-9]{3}|broken|none))*$`)

var repeated = regexp.MustCompile(`\{(\d+)\*([^}]*)\}`)

// raw returns the bytes that text describes.
func raw(t testing.TB, text string) string {
	t.Helper()
	text = repeated.ReplaceAllStringFunc(text, func(s string) string {
		m := repeated.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[1])
		return strings.Repeat(m[2], n)
	})
	var b strings.Builder
	for text = strings.ReplaceAll(text, "¶", `\r\n`); text != ""; {
		if text[0] != '\\' {
			b.WriteByte(text[0])
			text = text[1:]
			continue
		}
		c, _, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		b.WriteByte(byte(c)) // \x.. and the short forms are single bytes
		text = rest
	}
	return b.String()
}

// A message is a request or a response as its recipient read it.
type message struct {
	start   string   // "METHOD target", or the status
	fields  []string // lines
	body    string
	trailer []string
	broken  bool // the body was cut off
	conn    int  // the number of the connection on which the origin received it
}

func (m message) String() string {
	s := fmt.Sprintf("%s %q", m.start, m.fields)
	if m.body != "" {
		s += fmt.Sprintf(" body %q", cut(m.body))
	}
	if len(m.trailer) > 0 {
		s += fmt.Sprintf(" trailer %q", m.trailer)
	}
	if m.broken {
		s += " broken"
	}
	return s
}

func cut(s string) string {
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// values returns the values of a field, line by line.
func (m message) values(name string) []string { return valuesOf(m.fields, name) }

func valuesOf(lines []string, name string) (values []string) {
	for _, line := range lines {
		if k, v, _ := strings.Cut(line, ":"); strings.EqualFold(k, name) {
			values = append(values, strings.Trim(v, " \t"))
		}
	}
	return values
}

// unlike returns how m differs from the conditions, or "".
func (m message) unlike(t testing.TB, conditions string) string {
	t.Helper()
	parts := strings.Split(conditions, " | ")
	allowed := []string{parts[0]}
	if statuses.MatchString(parts[0]) {
		allowed = strings.Split(parts[0], "|")
	}
	for i, a := range allowed {
		allowed[i] = raw(t, a)
	}
	breaks := slices.Contains(parts[1:], "broken")
	switch {
	case m.broken && slices.Contains(allowed, "broken"):
		return "" // whatever was received before
	case m.broken && !breaks:
		return "truncated"
	case m.start == allowed[0] || allowed[0] == "*":
	case slices.Contains(allowed, m.start):
		return "" // the conditions apply to the first alternative
	default:
		return fmt.Sprintf("%q, want %q", m.start, allowed)
	}
	for _, c := range parts[1:] {
		kind, text, _ := strings.Cut(c, " ")
		text = raw(t, text)
		name, value, _ := strings.Cut(text, ":")
		value = strings.Trim(value, " ")
		lines := m.fields
		switch kind {
		case "body":
			if m.body != text {
				return fmt.Sprintf("body %q, want %q", cut(m.body), text)
			}
			continue
		case "broken":
			if !m.broken {
				return "complete, want it truncated"
			}
			continue
		case "trailer":
			lines = m.trailer
		case "notrailer":
			if v := valuesOf(m.trailer, text); len(v) > 0 {
				return fmt.Sprintf("trailer %s: %q, want none", text, v)
			}
			continue
		case "no":
			if v := m.values(text); len(v) > 0 {
				return fmt.Sprintf("%s: %q, want none", text, v)
			}
			continue
		case "has":
		default:
			t.Fatalf("unknown condition %q", c)
		}
		if v := strings.Join(valuesOf(lines, name), " / "); v != value {
			return fmt.Sprintf("%s: %q, want %q", name, v, value)
		}
	}
	return ""
}
