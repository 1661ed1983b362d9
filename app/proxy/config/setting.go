package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A field is one setting, described by the tags of its struct.
type field struct {
	item   bool   // it stands for an item of a list
	name   string // in the file
	index  int    // in the struct
	typ    reflect.Type
	help   string
	def    string // as written; "" means none
	hasDef bool
	min    string
	max    string
	none   string // the gateway's value for none
	enum   []string
	form   string
	gw     string
	least  int
	empty  bool // an empty list is not the same as none

	noNone, required, secret bool

	fields []*field // of a struct, or of a list's items
}

var (
	typeDuration = reflect.TypeFor[Duration]()
	typeSize     = reflect.TypeFor[Size]()
	typeFields   = reflect.TypeFor[Fields]()
)

// root describes the whole file.
var root = describe(reflect.TypeFor[Config]())

// describe reads the tags of a struct. It panics if they are invalid, so that any test
// finds it.
func describe(t reflect.Type) []*field {
	var fields []*field
	for i := range t.NumField() {
		sf := t.Field(i)
		name, _, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if !sf.IsExported() || name == "-" {
			continue
		}
		f := &field{
			name: name, index: i, typ: sf.Type,
			help: sf.Tag.Get("help"), min: sf.Tag.Get("min"), max: sf.Tag.Get("max"),
			form: sf.Tag.Get("form"), gw: sf.Tag.Get("gw"),
			required: sf.Tag.Get("required") == "true", secret: sf.Tag.Get("secret") == "true",
		}
		f.def, f.hasDef = sf.Tag.Lookup("default")
		var allowed bool
		f.none, allowed = sf.Tag.Lookup("none")
		f.noNone = !allowed
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.enum = strings.Split(enum, ",")
		}
		f.empty = sf.Tag.Get("empty") == "counts"
		f.least, _ = strconv.Atoi(sf.Tag.Get("least"))
		if s := structOf(f.typ); s != nil {
			f.fields = describe(s)
		}
		if f.name == "" || f.help == "" {
			panic(fmt.Sprintf("config: %s.%s has no name or no help", t, sf.Name))
		}
		if f.form != "" && forms[f.form].check == nil {
			panic(fmt.Sprintf("config: %s.%s has form %q", t, sf.Name, f.form))
		}
		fields = append(fields, f)
	}
	return fields
}

// structOf returns the struct that t is, points to, or is a list of.
func structOf(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Struct {
		return t
	}
	return nil
}

func (f *field) isList() bool { return f.typ.Kind() == reflect.Slice }

// short returns the setting that an item of a list of sections stands for if it is written as
// text, or nil.
func (f *field) short() *field {
	if f.isList() && f.valueType() == reflect.TypeFor[UpstreamServer]() {
		return fieldNamed(f.fields, "url")
	}
	return nil
}

// valueType returns the type of one value: of a list's item, or of a pointer's target. A
// nil pointer means that nothing was written.
func (f *field) valueType() reflect.Type {
	if f.isList() || f.typ.Kind() == reflect.Pointer {
		return f.typ.Elem()
	}
	return f.typ
}

// set sets a field of a struct.
func (f *field) set(v, value reflect.Value) {
	if f.typ.Kind() == reflect.Pointer {
		v.Set(reflect.New(f.typ.Elem()))
		v = v.Elem()
	}
	v.Set(value)
}

// isSection reports whether the field is a struct or a pointer to one.
func (f *field) isSection() bool { return f.fields != nil && !f.isList() }

// parse parses one value, of the field itself or of an item of its list, and checks the
// bounds. Its error is a *mistake, whose suggestion is valid.
func (f *field) parse(text string) (reflect.Value, error) {
	v, err := f.read(text)
	m, ok := err.(*mistake)
	if !ok {
		return v, err
	}
	out := *m
	if out.problem == tooLarge && f.span() != "" {
		out.problem += ": it must be " + f.span()
	}
	if out.suggestion == "" {
		return v, &out
	}
	if _, err := f.read(out.suggestion); err != nil {
		out.suggestion = ""
		if span := f.span(); span != "" && err.Error() == "must be "+span {
			out.problem += "; it " + err.Error()
		}
	}
	return v, &out
}

// read is parse, with suggestions that can be invalid.
func (f *field) read(text string) (reflect.Value, error) {
	t := f.valueType()
	if text == none && !f.noNone {
		if t.Kind() == reflect.String {
			return reflect.ValueOf(""), nil
		}
		return reflect.ValueOf(None).Convert(t), nil
	}
	v, err := parseAs(t, text)
	if err != nil {
		return v, f.orNone(text, err)
	}
	if t.Kind() == reflect.String {
		return v, f.checkText(text)
	}
	return v, f.bounds(v)
}

// parseAs reads one value of a type.
func parseAs(t reflect.Type, text string) (reflect.Value, error) {
	var v any
	var err error
	switch {
	case t == typeDuration:
		v, err = parseDuration(text)
	case t == typeSize:
		v, err = parseSize(text)
	case t.Kind() == reflect.Int:
		v, err = parseInt(text)
	case t.Kind() == reflect.Float64:
		v, err = parseFloat(text)
	case t.Kind() == reflect.Bool:
		v, err = parseBool(text)
	case t.Kind() == reflect.String:
		v = text
	default:
		panic(fmt.Sprintf("config: no setting can be a %s", t))
	}
	if err != nil {
		return reflect.Value{}, err
	}
	return reflect.ValueOf(v).Convert(t), nil
}

// orNone adds to a fault that none is allowed, too.
func (f *field) orNone(text string, err error) error {
	m, ok := err.(*mistake)
	if !ok || f.noNone {
		return err
	}
	out := *m
	if strings.HasPrefix(m.problem, "must be ") {
		out.problem += ", or none"
	}
	if text == "0" {
		out.suggestion = none
	}
	return &out
}

// bounds checks a number.
func (f *field) bounds(v reflect.Value) error {
	if v.Kind() == reflect.Bool {
		return nil
	}
	low := f.min != "" && less(v, f.bound(f.min))
	high := f.max != "" && less(f.bound(f.max), v)
	if !low && !high {
		return nil
	}
	m := &mistake{problem: "must be " + f.span()}
	if !f.noNone && v.IsZero() {
		m.suggestion = none
	}
	return m
}

// span returns the bounds in words.
func (f *field) span() string {
	var s string
	switch {
	case f.min != "" && f.max != "":
		s = f.min + " to " + f.max
	case f.min != "":
		s = f.min + " or more"
	case f.max != "":
		s = "at most " + f.max
	}
	if !f.noNone && s != "" {
		s += ", or none"
	}
	return s
}

func (f *field) bound(text string) reflect.Value {
	t := f.valueType()
	v, err := parseAs(t, text)
	if err != nil {
		panic(fmt.Sprintf("config: the bound %q of %s: %v", text, f.name, err))
	}
	return v
}

func less(a, b reflect.Value) bool {
	if a.CanFloat() {
		return a.Float() < b.Float()
	}
	return a.Int() < b.Int()
}

// checkText checks a text against its enum or form.
func (f *field) checkText(text string) error {
	if f.enum != nil && !slices.Contains(f.enum, text) {
		return &mistake{"must be " + alternatives(f.enum), nearest(text, f.enum)}
	}
	if f.form != "" && f.typ.Kind() != reflect.Map {
		if m := forms[f.form].check(text); m != nil {
			return f.orNone(text, m)
		}
	}
	return nil
}

// setDefaults sets every field of a struct to its default, except lists and pointers, which
// start empty.
func setDefaults(fields []*field, v reflect.Value) {
	for _, f := range fields {
		target := v.Field(f.index)
		switch {
		case f.isSection() && f.typ.Kind() == reflect.Struct:
			setDefaults(f.fields, target)
		case f.isList() && f.def != "":
			list := reflect.MakeSlice(f.typ, 0, 0)
			for text := range strings.SplitSeq(f.def, ",") {
				list = reflect.Append(list, f.mustParse(text))
			}
			target.Set(list)
		case f.def != "":
			target.Set(f.mustParse(f.def))
		}
	}
}

func (f *field) mustParse(text string) reflect.Value {
	v, err := f.parse(text)
	if err != nil {
		panic(fmt.Sprintf("config: the default %q of %s: %v", text, f.name, err))
	}
	return v
}

// gatewayNone returns the gateway's value for none.
func (f *field) gatewayNone() int64 {
	n, err := strconv.ParseInt(f.none, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("config: none of %s: %v", f.name, err))
	}
	return n
}
