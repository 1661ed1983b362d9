package config

import (
	"fmt"
	"net/http"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/weir-go/weir/gateway"
)

// A decoder fills a Config from YAML nodes and records faults. It walks the settings,
// not the nodes, so it is never deeper than they are, and needs at most MaxValues
// steps, whatever aliases the file contains.
type decoder struct {
	file   string // for faults; file names are relative to its folder
	lines  []string
	faults Faults

	origins map[*yaml.Node]string // nodes that come from flags and variables
	nodes   map[string]*yaml.Node // by path
	secrets map[int]int           // the column from which a line is hidden
	hidden  map[*yaml.Node]bool   // scalars whose lines are hidden
	values  int

	kept  map[string][]int // the indexes of the items that lists with faulty items still have
	meant map[string]bool  // settings that unknown fields were probably meant to be

	known     int             // faults that are in the maps below
	exact     map[string]bool // the paths of faults
	ancestors map[string]bool // the paths above those
	validate  func(gateway.Config) error
}

// A place is a setting in a file: its path, and the node of its value.
type place struct {
	path string
	node *yaml.Node
}

func (d *decoder) complain(p place, value string, err error) *Fault {
	m, ok := err.(*mistake)
	if !ok {
		m = &mistake{problem: err.Error()}
	}
	if show(m.suggestion) != m.suggestion { // long, or with what is not shown
		m = &mistake{problem: m.problem}
	}
	f := &Fault{File: d.file, Field: p.path, Value: show(value), Problem: m.problem, Suggestion: m.suggestion}
	if p.node != nil {
		if origin, ok := d.origins[p.node]; ok {
			f.File = origin
		} else {
			f.Line, f.Column = p.node.Line, p.node.Column
		}
	}
	d.faults = append(d.faults, f)
	return f
}

func (d *decoder) complainf(p place, format string, args ...any) {
	d.complain(p, "", &mistake{problem: fmt.Sprintf(format, args...)})
}

// keyPath returns the path of a key of a section. Characters that cannot be in a name are
// left out here and in the lines of the file.
func (d *decoder) keyPath(path string, key *yaml.Node) string {
	shown, whole := showKey(key.Value)
	if key.ShortTag() == "!!merge" {
		return join(path, key.Value)
	}
	if !whole {
		d.hideFrom(key.Line, key.Column+utf8.RuneCountInString(shown)-1)
	}
	return join(path, shown)
}

// joined returns the fault of a key in which a value is stuck to the name, as in
// {X-Site:shop}, and the given one for all other keys.
func joined(key string, wrong *mistake) *mistake {
	if i := strings.IndexAny(start(key), ":="); i > 0 && token.MatchString(key[:i]) {
		return &mistake{problem: "must be a name, a colon, a blank and a value; put a blank after the colon"}
	}
	return wrong
}

// mean records what a name in a section was probably meant to be.
func (d *decoder) mean(path, name string) {
	if name != "" {
		d.meant[join(path, name)] = true
	}
}

// step counts a value. It returns false if there are too many.
func (d *decoder) step(p place) bool {
	if d.values++; d.values == MaxValues+1 {
		d.complainf(p, "is one value too many: the limit is %d, with aliases expanded", MaxValues)
	}
	return d.values <= MaxValues
}

// seen records where a setting is.
func (d *decoder) seen(p place) {
	if d.nodes[p.path] == nil {
		d.nodes[p.path] = p.node
	}
}

func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// section fills a struct.
func (d *decoder) section(p place, fields []*field, v reflect.Value) {
	n := resolve(p.node)
	if isNull(n) {
		n = &yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column}
	}
	if n.Kind != yaml.MappingNode {
		d.complain(p, scalarValue(n), &mistake{problem: "must be a section with fields, not " + kindOf(n) + rightForm(p.path)})
		return
	}
	written := map[string]bool{}
	for _, e := range d.entries(p, n) {
		name := e.key.Value
		at := place{d.keyPath(p.path, e.key), e.value}
		if p.path == "" && strings.HasPrefix(name, "x-") {
			continue
		}
		f := fieldNamed(fields, name)
		if f == nil {
			at.node = e.key
			d.hide(e.value)
			wrong := d.unknown(p.path, name, fields)
			d.mean(p.path, wrong.suggestion)
			if i := strings.IndexAny(start(name), ":="); i > 0 {
				d.mean(p.path, name[:i])
			}
			wrong = joined(name, wrong)
			d.complain(at, "", wrong)
			continue
		}
		written[name] = true
		d.seen(at)
		if d.step(at) {
			d.field(at, f, v.Field(f.index))
		}
	}
	for _, f := range fields {
		if f.required && !written[f.name] && !d.meant[join(p.path, f.name)] && p.path != "" {
			problem := "is missing"
			if f.enum != nil && f.isList() {
				problem += ": list one or more of " + f.single() + ", such as " + f.example()
			}
			d.complain(place{join(p.path, f.name), p.node}, "", &mistake{problem: problem})
		}
	}
}

// unknown calls unknownField, which is slow, only for faults that are shown.
func (d *decoder) unknown(path, name string, fields []*field) *mistake {
	if len(d.faults) > MaxFaults {
		return &mistake{problem: "unknown field"}
	}
	return unknownField(path, name, fields)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func fieldNamed(fields []*field, name string) *field {
	for _, f := range fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// field fills one field of a struct.
func (d *decoder) field(p place, f *field, v reflect.Value) {
	switch {
	case f.isSection() && f.typ.Kind() == reflect.Pointer:
		if isNull(resolve(p.node)) {
			return
		}
		v.Set(reflect.New(f.typ.Elem()))
		setDefaults(f.fields, v.Elem())
		d.section(p, f.fields, v.Elem())
	case f.isSection():
		d.section(p, f.fields, v)
	case f.isList():
		d.list(p, f, v)
	case f.typ.Kind() == reflect.Map:
		d.headers(p, f, v)
	default:
		if value, ok := d.scalar(p, f); ok {
			f.set(v, value)
		}
	}
}

// list fills a list, of structs or of values.
func (d *decoder) list(p place, f *field, v reflect.Value) {
	n := resolve(p.node)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		m := &mistake{problem: "must be a list, not " + kindOf(n) + rightForm(p.path)}
		if n.Kind == yaml.ScalarNode && f.fields == nil {
			if _, err := f.parse(n.Value); err == nil {
				m.suggestion = "[" + n.Value + "]"
			}
		}
		d.complain(p, scalarValue(n), f.withExample(m))
		return
	}
	if len(n.Content) < f.least {
		d.complainf(p, "must have at least %d", f.least)
	}
	list := reflect.MakeSlice(f.typ, 0, len(n.Content))
	kept := make([]int, 0, len(n.Content))
	for i, item := range n.Content {
		at := place{fmt.Sprintf("%s[%d]", p.path, i), item}
		d.seen(at)
		if !d.step(at) {
			return
		}
		if f.fields == nil {
			if value, ok := d.scalar(at, f); ok {
				list, kept = reflect.Append(list, value), append(kept, i)
			}
			continue
		}
		value := reflect.New(f.typ.Elem()).Elem()
		setDefaults(f.fields, value)
		if short := f.short(); short != nil && resolve(item).Kind == yaml.ScalarNode {
			own := *short
			own.item = true
			own.name = f.name
			text, ok := d.scalar(at, &own)
			if !ok {
				continue
			}
			short.set(value.Field(short.index), text)
		} else {
			d.section(at, f.fields, value)
		}
		list, kept = reflect.Append(list, value), append(kept, i)
	}
	if (f.fields == nil || f.short() != nil) && len(kept) < len(n.Content) {
		d.kept[p.path] = kept
	}
	if list.Len() == 0 && f.def == "" && !f.empty {
		list = reflect.Zero(f.typ) // so that [] and no value are the same
	}
	v.Set(list)
}

// scalar reads one value.
func (d *decoder) scalar(p place, f *field) (reflect.Value, bool) {
	n := resolve(p.node)
	value, err := f.fromNode(n)
	if err != nil {
		d.complain(p, scalarValue(n), f.withExample(err))
		return value, false
	}
	if f.form == "file" || f.form == "dir" {
		value = reflect.ValueOf(d.absolute(p.node, value.String()))
	}
	return value, true
}

// fromNode reads a value, and rejects values that YAML reads as another type.
func (f *field) fromNode(n *yaml.Node) (reflect.Value, error) {
	if n.Kind != yaml.ScalarNode {
		return reflect.Value{}, &mistake{problem: "must be " + f.single() + ", not " + kindOf(n)}
	}
	t := f.valueType()
	tag := n.ShortTag()
	switch tag {
	case "!!null":
		m := &mistake{problem: "has no value; write " + f.single() + ", or remove the line"}
		return reflect.Value{}, m
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!":
	default:
		return reflect.Value{}, &mistake{problem: "has the unknown tag " + tag + ""}
	}
	v, err := f.parse(n.Value)
	if err != nil {
		if tag == "!!bool" && f.enum != nil && n.Value == "false" && slices.Contains(f.enum, "off") {
			err = &mistake{err.Error(), "off"}
		}
		return v, err
	}
	quoted := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0
	number := t.Kind() == reflect.Bool || t.Kind() == reflect.Int || t.Kind() == reflect.Float64
	switch {
	case number && quoted && n.Value != none:
		return v, &mistake{problem: "is a string because of its quotes; remove them"}
	case (tag == "!!bool" || tag == "!!int") && t == reflect.TypeFor[Choice](): // true, 502 and words
	case t.Kind() == reflect.String && tag != "!!str" && tag != "!":
		return v, &mistake{"is not a string in YAML", "'" + n.Value + "'"}
	}
	return v, nil
}

// headers fills a map of header fields, whose values can be secret.
func (d *decoder) headers(p place, f *field, v reflect.Value) {
	n := resolve(p.node)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.hide(n)
		d.complainf(p, "must be a section with the name of a header field in each line, not %s, such as %s", kindOf(n), f.example())
		return
	}
	m := reflect.MakeMap(f.typ)
	names := map[string]bool{}
	for _, e := range d.entries(p, n) {
		at := place{d.keyPath(p.path, e.key), e.value}
		if f.secret {
			d.hide(e.value)
		}
		if !d.step(at) {
			return
		}
		if wrong := forms[f.form].check(e.key.Value); wrong != nil {
			d.hide(e.value)
			d.complain(place{at.path, e.key}, "", f.withExample(joined(e.key.Value, wrong)))
			continue
		}
		name := http.CanonicalHeaderKey(e.key.Value)
		if names[name] {
			d.complain(place{at.path, e.key}, "", &mistake{problem: "is a duplicate: field names are case-insensitive"})
			continue
		}
		names[name] = true
		at.path = join(p.path, name)
		d.seen(at)
		if values, ok := d.headerValues(at); ok && f.typ == typeFields {
			m.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(values))
		} else if ok && len(values) == 1 {
			m.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(d.absolute(e.value, values[0])))
		} else if ok {
			d.complainf(at, "must be the name of one file, such as %s", f.example())
		}
	}
	if m.Len() > 0 {
		v.Set(m)
	}
}

// headerValues reads a value or a list of values. Its faults do not contain them.
func (d *decoder) headerValues(p place) ([]string, bool) {
	n := resolve(p.node)
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	var values []string
	for _, item := range items {
		if item = resolve(item); !d.step(p) {
			return nil, false
		}
		if item.Kind != yaml.ScalarNode || isNull(item) {
			d.complainf(p, "must be a string or a list of strings, such as X-Site: shop")
			return nil, false
		}
		if err := checkHeaderValue(item.Value); err != nil {
			d.complain(p, "", err)
			return nil, false
		}
		values = append(values, item.Value)
	}
	return values, len(values) > 0
}

func checkHeaderValue(value string) error {
	if strings.TrimSpace(value) != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return &mistake{problem: "must be one line, without surrounding spaces and without control characters"}
	}
	return nil
}

// absolute makes a file name absolute: names in a file are relative to its folder,
// names in flags and variables to the working directory.
func (d *decoder) absolute(n *yaml.Node, name string) string {
	if _, ours := d.origins[n]; !ours && !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(d.file), name)
	}
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}

// hide removes the values under a node from the snippets of their lines.
func (d *decoder) hide(n *yaml.Node) {
	if n.Kind == yaml.AliasNode || d.values > MaxValues {
		return
	}
	d.values++
	if n.Kind == yaml.ScalarNode && !d.hidden[n] {
		d.hidden[n] = true
		d.hideFrom(n.Line, n.Column)
		last := d.lastLine(n)
		for line := n.Line + 1; line <= last; line++ {
			d.hideFrom(line, 1)
		}
	}
	for _, c := range n.Content {
		d.hide(c)
	}
}

// lastLine returns the line on which a scalar ends, or a later one.
func (d *decoder) lastLine(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(d.lines) || n.Value == "" {
		return n.Line
	}
	rest := []rune(d.lines[n.Line-1])
	rest = rest[min(max(n.Column-1, 0), len(rest)):]
	if ends(rest) || strings.HasPrefix(string(rest), n.Value) {
		return n.Line
	}
	// All of its characters but blanks are in these lines. An escape for a single one takes
	// up to ten, so that a string in double quotes may need more lines.
	left := len(strings.Join(strings.Fields(n.Value), ""))
	if n.Style&yaml.DoubleQuotedStyle != 0 {
		left *= 10
	}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		rest = nil // a mark such as |, with which the first line ends
	}
	line := n.Line
	for left -= len(strings.Join(strings.Fields(string(rest)), "")); left > 0 && line < len(d.lines); line++ {
		left -= len(strings.Join(strings.Fields(d.lines[line]), ""))
	}
	return min(line+1, len(d.lines))
}

// ends reports whether a text begins with a string in quotes and its end.
func ends(text []rune) bool {
	if len(text) == 0 || text[0] != '"' && text[0] != '\'' {
		return false
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && text[0] == '"', text[i] == '\'' && text[0] == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++ // escaped
		case text[i] == text[0]:
			return true
		}
	}
	return false
}

// hideFrom removes a line from a column on.
func (d *decoder) hideFrom(line, column int) {
	if from, ok := d.secrets[line]; !ok || column < from {
		d.secrets[line] = column
	}
}

func scalarValue(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode && !isNull(n) {
		return n.Value
	}
	return ""
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a section"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}
