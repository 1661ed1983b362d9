package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/jobs/bounded"
)

// Load reads a configuration and fills in the defaults. Its error is [Faults] and
// contains all faults. If the file is not valid YAML, everything after the first syntax
// error is left out.
func Load(s Source) (*Config, error) {
	d := &decoder{
		origins: map[*yaml.Node]string{},
		nodes:   map[string]*yaml.Node{},
		secrets: map[int]int{},
		hidden:  map[*yaml.Node]bool{},
		kept:    map[string][]int{},
		meant:   map[string]bool{},

		exact:     map[string]bool{},
		ancestors: map[string]bool{},

		validate: s.validate,
	}
	if d.validate == nil {
		d.validate = gateway.Config.Validate
	}
	settings, faults := s.settings()
	d.faults = faults
	d.file = s.File
	if d.file == "" {
		d.file = variable(s.Env, envConfig)
	}
	doc, ok := d.read()
	d.overlay(doc, settings)

	c := &Config{}
	setDefaults(root, reflect.ValueOf(c).Elem())
	d.section(place{"", doc}, root, reflect.ValueOf(c).Elem())
	if ok && d.values <= MaxValues {
		d.check(c)
	}
	d.snippets(c.Warnings)
	if len(d.faults) > 0 {
		d.snippets(d.faults)
		return nil, d.faults.sorted().once().cut()
	}
	c.Warnings = c.Warnings.sorted().once()
	return c, nil
}

// read returns the content of the file. It returns false if the file is not a
// configuration at all.
func (d *decoder) read() (*yaml.Node, bool) {
	empty := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if d.file == "" {
		return empty, true
	}
	text, err := readFile(d.file, MaxFileBytes)
	if err != nil {
		d.faults = append(d.faults, &Fault{File: d.file, Problem: err.Error()})
		return empty, false
	}
	doc, fault := parseYAML(d.file, text)
	if fault != nil {
		d.faults = append(d.faults, fault)
		return empty, false
	}
	d.lines = splitLines(text)
	if doc = resolve(doc); isNull(doc) {
		return empty, true
	}
	return doc, doc.Kind == yaml.MappingNode
}

// readFile reads a file of any kind, up to a number of bytes.
func readFile(name string, most int64) ([]byte, error) {
	text, err := bounded.File(name, most)
	if err == nil {
		return text, nil
	}
	if _, ok := errors.AsType[*bounded.SizeError](err); ok {
		return nil, &mistake{problem: fmt.Sprintf("is larger than %v", Size(most))}
	}
	if late, ok := errors.AsType[*bounded.TimeError](err); ok {
		return nil, &mistake{problem: fmt.Sprintf("cannot be read: it did not end within %v", late.Patience)}
	}
	if errors.Is(err, syscall.EISDIR) {
		return nil, &mistake{problem: "cannot be read: it is a folder"}
	}
	return nil, cannotRead(err)
}

func cannotRead(err error) error {
	if path, ok := err.(*os.PathError); ok {
		err = path.Err // the fault already contains the name
	}
	return &mistake{problem: "cannot be read: " + err.Error()}
}

// snippets adds lines of the file to faults. A file that is not YAML has no lines here;
// its fault already has a snippet.
func (d *decoder) snippets(faults Faults) {
	for _, f := range faults {
		if f.Line < 1 || f.Line > len(d.lines) {
			continue
		}
		line := strings.TrimPrefix(d.lines[f.Line-1], "\uFEFF")
		if from, ok := d.secrets[f.Line]; ok {
			if r := []rune(line); from-1 <= len(r) {
				line = string(r[:from-1]) + "…"
			}
		}
		f.Snippet = showLine(line)
	}
}

// once removes duplicates, for example from a section that is merged twice.
func (f Faults) once() Faults {
	seen := map[string]bool{}
	var out Faults
	for _, fault := range f {
		leaf := fault.Field[strings.LastIndex(fault.Field, ".")+1:]
		id := fmt.Sprint(fault.File, ":", fault.Line, ":", fault.Column, ":", leaf, ":", fault.Problem)
		if !seen[id] {
			seen[id] = true
			out = append(out, fault)
		}
	}
	return out
}

// cut keeps MaxFaults faults and replaces the others by their number.
func (f Faults) cut() Faults {
	if len(f) <= MaxFaults {
		return f
	}
	more := &Fault{File: f[MaxFaults].File, Problem: fmt.Sprintf("has %d more faults", len(f)-MaxFaults)}
	return append(f[:MaxFaults:MaxFaults], more)
}

// YAML returns c as a file that [Load] reads back to an equal Config.
func (c *Config) YAML() []byte {
	text, err := yaml.Dump(c)
	if err != nil {
		panic(fmt.Sprintf("config: a Config cannot be written: %v", err))
	}
	return text
}
