package config_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/proxy/config"
)

// goTypes are what an error of Go's says, and no error of ours.
var goTypes = regexp.MustCompile(`map\[|\[\]string|\[\]int|\[\]interface|interface \{\}|cannot unmarshal|!!(seq|map|str|int)\b|config\.|yaml\.|reflect|strconv|time\.Duration|int64|float64|%!|ParseInt|ParseFloat|invalid syntax|<nil>`)

// wrongKinds are values that a setting of that kind cannot have.
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

// yamlOf is a file with one setting, and the path that its faults have. What else
// is required is missing, and has faults of its own.
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

// Whatever kind of value a setting is given that it cannot have, its fault names
// the file, the line and the field, shows what was written, says what has to be
// there with an example or the bounds, and nothing of Go.
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
					t.Errorf("%s, %s: the fault %q is of Go", s.Path, name, f.Error())
				}
				if found == nil && (f.Field == at || strings.HasPrefix(f.Field, at+"[") || strings.HasPrefix(f.Field, at+".")) && !strings.Contains(f.Problem, "is missing") {
					found = f
				}
			}
			if found == nil {
				if faults == nil || s.Type == "text" && name == "empty" || s.Bounded && name == "negative" {
					continue // "" and "-5" may be what another fault hides
				}
				if name == "negative" || name == "huge" || name == "empty" {
					t.Errorf("%s, %s: no fault for %q of %q:\n%s", s.Path, name, at, value, faults.Text())
					continue
				}
				t.Errorf("%s, %s: no fault for %q:\n%s", s.Path, name, at, faults.Text())
				continue
			}
			n++
			if !strings.HasSuffix(found.File, "weir.yaml") || found.Line != strings.Count(text, "\n") {
				t.Errorf("%s, %s: the fault is of %s, line %d; want weir.yaml, line %d", s.Path, name, found.File, found.Line, strings.Count(text, "\n"))
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
		t.Errorf("%d faults with %d examples were looked at; want at least 1000 and 100", n, len(examples))
	}
	for path, example := range examples { // can be used as it is
		name, value, _ := strings.Cut(example, ": ")
		if !strings.HasSuffix(path, name) {
			value = "{" + example + "}" // a field of its
		}
		text, at := yamlOf(path, value)
		_, faults := load(t, text)
		for _, f := range faults {
			// What goes with other settings is not the example's to know.
			others := regexp.MustCompile("no such file|is the address of|needs the section").MatchString(f.Problem)
			if f.Field == at && !others {
				t.Errorf("the example %q of %s has the fault %q", example, path, f.Error())
			}
		}
	}
}
