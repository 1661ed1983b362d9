package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Patterns for values that are text with a unit.
const (
	patternDuration = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$`
	patternSize     = `^(0|[1-9][0-9]*)(B|KiB|MiB|GiB|TiB)?$`
)

// Schema returns the JSON Schema (2020-12) of a file, for editors. It checks less than
// [Load]: neither bounds of durations and sizes, nor rules between settings.
func Schema() []byte {
	s := objectSchema(root)
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "weir proxy"
	s["description"] = "Configuration of weir proxy."
	s["type"] = []string{"object", "null"}
	s["patternProperties"] = map[string]any{
		"^x-": map[string]any{"description": "Ignored: a place for anchors."},
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		panic(fmt.Sprintf("config: the schema cannot be written: %v", err))
	}
	return b.Bytes()
}

func objectSchema(fields []*field) map[string]any {
	properties := map[string]any{}
	var required []string
	for _, f := range fields {
		p := f.schema()
		p["description"] = f.help
		properties[f.name] = p
		if f.required && f.name != "upstreams" { // --upstream can set it
			required = append(required, f.name)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if required != nil {
		s["required"] = required
	}
	return s
}

func (f *field) schema() map[string]any {
	switch {
	case f.isSection():
		s := objectSchema(f.fields)
		if s["required"] == nil || f.typ.Kind() == reflect.Pointer {
			s["type"] = []string{"object", "null"}
		}
		return s
	case f.isList():
		s := map[string]any{"type": []string{"array", "null"}}
		if f.fields != nil {
			s["items"] = objectSchema(f.fields)
			if short := f.short(); short != nil {
				s["items"] = map[string]any{"anyOf": []any{short.valueSchema(short.valueType()), s["items"]}}
			}
		} else {
			s["items"] = f.valueSchema(f.valueType())
		}
		if f.least > 0 {
			s["minItems"] = f.least
		}
		if f.def != "" {
			s["default"] = f.defaultList()
		}
		return s
	case f.typ == typeFields:
		text := map[string]any{"type": []string{"string", "number", "boolean"}}
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": map[string]any{
			"anyOf": []any{text, map[string]any{"type": "array", "items": text, "minItems": 1}},
		}}
	case f.typ.Kind() == reflect.Map:
		return map[string]any{"type": []string{"object", "null"}, "additionalProperties": map[string]any{"type": "string"}}
	}
	s := f.valueSchema(f.valueType())
	if !f.noNone && s["pattern"] == nil && f.typ.Kind() != reflect.String {
		s = map[string]any{"anyOf": []any{s, map[string]any{"const": none}}}
	}
	if f.hasDef {
		s["default"] = f.defaultValue()
	}
	return s
}

// valueSchema returns the schema of one value.
func (f *field) valueSchema(t reflect.Type) map[string]any {
	s := map[string]any{}
	switch {
	case t == typeDuration:
		s["type"], s["pattern"] = "string", f.patternOrNone(patternDuration)
	case t == typeSize:
		s["type"], s["pattern"] = []string{"string", "integer"}, f.patternOrNone(patternSize)
		s["minimum"] = 0
	case t.Kind() == reflect.Int:
		s["type"] = "integer"
		f.addBounds(s)
	case t.Kind() == reflect.Float64:
		s["type"] = "number"
		f.addBounds(s)
	case t.Kind() == reflect.Bool:
		s["type"] = "boolean"
	default:
		s["type"] = "string"
		if f.enum != nil {
			s["enum"] = f.enum
			if slices.Contains(f.enum, "true") {
				s["type"], s["enum"] = []string{"string", "boolean"}, asYAML(f.enum)
			} else if slices.ContainsFunc(f.enum, isNumber) {
				s["type"], s["enum"] = []string{"string", "integer"}, asYAML(f.enum)
			}
		}
	}
	return s
}

func (f *field) patternOrNone(pattern string) string {
	if f.noNone {
		return pattern
	}
	return "^none$|" + pattern
}

func (f *field) addBounds(s map[string]any) {
	if f.min != "" {
		s["minimum"] = json.Number(f.min)
	}
	if f.max != "" {
		s["maximum"] = json.Number(f.max)
	}
}

func (f *field) defaultList() []any {
	var list []any
	for text := range strings.SplitSeq(f.def, ",") {
		list = append(list, f.jsonValue(text))
	}
	return list
}

func (f *field) defaultValue() any { return f.jsonValue(f.def) }

// jsonValue returns a written value as a JSON value.
func (f *field) jsonValue(text string) any {
	t := f.valueType()
	switch {
	case text == none || t == typeDuration || t == typeSize:
		return text
	case t.Kind() == reflect.Bool:
		return text == "true"
	case t.Kind() == reflect.Int || t.Kind() == reflect.Float64:
		return json.Number(text)
	}
	return text
}

// single describes one value in words.
func (f *field) single() string {
	t := f.valueType()
	switch {
	case t == typeDuration:
		return "a duration such as 10s"
	case t == typeSize:
		return "a size such as 64MiB"
	case t.Kind() == reflect.Int:
		return "a whole number"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case f.enum != nil:
		return alternatives(f.enum)
	}
	return "a string"
}

// label returns the type's name in the docs.
func (f *field) label() string {
	t, list := f.valueType(), ""
	if f.isList() {
		list = "list of "
	}
	switch {
	case f.short() != nil:
		return "list of " + f.short().label() + " or sections"
	case f.fields != nil && f.isList():
		return "list of sections"
	case f.fields != nil:
		return "section"
	case f.typ == typeFields:
		return "header names with values"
	case t.Kind() == reflect.Map:
		return "header names with files"
	case t == typeDuration:
		return list + "duration"
	case t == typeSize:
		return list + "size"
	case t.Kind() == reflect.Int:
		return list + "whole number"
	case t.Kind() == reflect.Float64:
		return list + "number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case f.enum != nil:
		return list + strings.Join(f.enum, ", ")
	}
	return list + forms[f.form].label
}

// asYAML returns texts as YAML reads them: true and false are booleans, and a number is one, with
// or without quotes.
func asYAML(texts []string) []any {
	var values []any
	for _, text := range texts {
		switch text {
		case "true", "false":
			values = append(values, text == "true")
		default:
			if isNumber(text) {
				values = append(values, json.Number(text))
			}
			values = append(values, text)
		}
	}
	return values
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}
