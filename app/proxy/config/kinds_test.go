package config_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

// goTypes matches text that occurs in Go's errors but must not occur in ours.
var goTypes = regexp.MustCompile(`map\[|\[\]string|\[\]int|\[\]interface|interface \{\}|cannot unmarshal|!!(seq|map|str|int)\b|config\.|yaml\.|reflect|strconv|time\.Duration|int64|float64|%!|ParseInt|ParseFloat|invalid syntax|<nil>`)

// wrongKinds returns values that are invalid for a setting of that kind.
func wrongKinds(s config.Setting) map[string]string {
	wrong := map[string]string{}
	add := func(name, value string) { wrong[name] = value }
	switch s.Kind {
	case "section":
		add("scalar", "zzz")
		add("number", "8080")
		add("boolean", "true")
		add("list", "[1, 2]")
		add("text", `"10/s"`)
		add("nested list", "[[{a: b}]]")
	case "list of sections":
		add("scalar", "zzz")
		add("number", "8080")
		add("section", "{a: b}")
		add("list of scalars", "[zzz]")
		add("list of lists", "[[zzz]]")
	case "list":
		add("scalar", "zzz")
		add("number", "8080")
		add("section", "{a: b}")
		add("list of sections", "[{a: b}]")
		add("list of lists", "[[zzz]]")
		add("list of nulls", "[null]")
	case "headers":
		add("scalar", "zzz")
		add("number", "8080")
		add("list", "[a, b]")
		add("nested", "{x-a: {b: c}}")
		add("null inside", "{x-a: null}")
		add("bad name", `{"a b": c}`)
	default:
		add("section", "{a: b}")
		add("list", "[1, 2]")
		add("null", "null")
		add("nothing", "")
		add("tag", "!!binary aGk=")
		add("empty", `""`)
		if s.Type != "text" || s.Enum {
			add("word", "zzz")
			add("huge", "99999999999999999999999")
			add("negative", "-5")
			add("quoted nonsense", `"1 2"`)
			add("control", `"\x01"`)
		}
		if s.Type == "duration" {
			add("no unit", "7")
			add("too long", "999999999h")
		}
		if s.Type == "size" {
			add("fraction", "1.5")
			add("decimal unit", "3 parsecs")
		}
	}
	return wrong
}

// yamlOf returns a file with one setting, and the path of its faults. Other required
// settings are missing and cause separate faults.
func yamlOf(path, value string) (text, at string) {
	parts := strings.Split(path, ".")
	var b, end strings.Builder
	for i, p := range parts {
		name, list := strings.CutSuffix(p, "[]")
		indent := strings.Repeat("    ", i)
		if i > 0 && strings.HasSuffix(parts[i-1], "[]") {
			indent = indent[:len(indent)-2] + "- "
		}
		if i == len(parts)-1 {
			fmt.Fprintf(&b, "%s%s: %s\n", indent, name, value)
		} else {
			fmt.Fprintf(&b, "%s%s:\n", indent, name)
		}
		if end.Len() > 0 {
			end.WriteByte('.')
		}
		if end.WriteString(name); list {
			end.WriteString("[0]")
		}
	}
	return b.String(), end.String()
}

// If a setting has a value of the wrong kind, its fault names the file, the line and
// the field. It shows the value, describes the valid values with an example or the
// bounds, and mentions no Go types.
func TestFaultsOfEverySettingAndKind(t *testing.T) {
	folder(t)
	n, examples := 0, map[string]string{}
	for _, s := range config.AllSettings() {
		for name, value := range wrongKinds(s) {
			text, at := yamlOf(s.Path, value)
			if text == "" {
				continue
			}
			_, faults := load(t, text)
			var found *config.Fault
			for _, f := range faults {
				if goTypes.MatchString(strings.Replace(f.Error(), f.Value, "", 1)) {
					t.Errorf("%s, %s: the fault %q mentions a Go type", s.Path, name, f.Error())
				}
				if found == nil && (f.Field == at || strings.HasPrefix(f.Field, at+"[") || strings.HasPrefix(f.Field, at+".")) && !strings.Contains(f.Problem, "is missing") {
					found = f
				}
			}
			if found == nil {
				if faults == nil || s.Type == "text" && name == "empty" || s.Bounded && name == "negative" {
					continue // other faults can hide that of "" and "-5"
				}
				if name == "negative" || name == "huge" || name == "empty" {
					t.Errorf("%s, %s: no fault about %q with %q:\n%s", s.Path, name, at, value, faults.Text())
					continue
				}
				t.Errorf("%s, %s: no fault about %q:\n%s", s.Path, name, at, faults.Text())
				continue
			}
			n++
			if !strings.HasSuffix(found.File, "weir.yaml") || found.Line != strings.Count(text, "\n") {
				t.Errorf("%s, %s: the fault is in %s, line %d; want weir.yaml, line %d", s.Path, name, found.File, found.Line, strings.Count(text, "\n"))
			}
			if !strings.Contains(found.Problem, "such as ") && found.Suggestion == "" {
				t.Errorf("%s, %s: %q has no example", s.Path, name, found.Error())
			}
			if _, example, ok := strings.Cut(found.Problem, ", such as "); ok {
				examples[s.Path] = example
			}
		}
	}
	if n < 1000 || len(examples) < 100 {
		t.Errorf("%d faults with %d examples were checked; want at least 1000 and 100", n, len(examples))
	}
	for path, example := range examples { // can be used as they are
		name, value, _ := strings.Cut(example, ": ")
		if !strings.HasSuffix(path, name) {
			value = "{" + example + "}" // a field of the section
		}
		text, at := yamlOf(path, value)
		_, faults := load(t, text)
		for _, f := range faults {
			// An example cannot match the other settings.
			others := regexp.MustCompile("no such file|is the address of|needs the section|needs compare|must be the path of the route").MatchString(f.Problem)
			if f.Field == at && !others {
				t.Errorf("the example %q of %s has the fault %q", example, path, f.Error())
			}
		}
	}
}
