package config

import (
	"reflect"

	"github.com/weir-go/weir/gateway"
)

// Validated returns s with another function instead of the gateway's Validate.
func (s Source) Validated(by func(gateway.Config) error) Source {
	s.validate = by
	return s
}

// GatewayFields returns the gateway's fields that settings can set, as paths from a
// gateway.Config, an Upstream and a Route.
func GatewayFields() (top, upstream, route map[string]string) {
	return gatewayAddresses(root),
		gatewayAddresses(fieldNamed(root, "upstreams").fields),
		gatewayAddresses(fieldNamed(root, "routes").fields)
}

var Distance = distance

// Parsers returns a parser for each setting that is a single value. It returns the
// suggestion and the error. A suggestion can still be out of bounds.
func Parsers() map[string]func(string) (string, error) {
	out := map[string]func(string) (string, error){}
	eachField(root, "", func(path string, f *field) {
		if f.fields != nil || f.typ.Kind() == reflect.Map {
			return
		}
		unbounded := *f
		unbounded.min, unbounded.max = "", ""
		out[path] = func(text string) (string, error) {
			_, err := unbounded.parse(text)
			if m, ok := err.(*mistake); ok {
				return m.suggestion, m
			}
			return "", err
		}
	})
	return out
}

// A Setting is a field of a file, for tests.
type Setting struct {
	Path                  string // such as routes[].cache.ttl
	Kind                  string // section, list of sections, list, headers, or value
	Type                  string // of a value: duration, size, number or text
	Bounded, Enum, Secret bool
}

// AllSettings returns every setting.
func AllSettings() []Setting {
	var all []Setting
	eachField(root, "", func(path string, f *field) {
		s := Setting{Path: path, Kind: "value", Bounded: f.min != "", Enum: f.enum != nil || f.valueType().Kind() == reflect.Bool, Secret: f.secret}
		switch {
		case f.isSection():
			s.Kind = "section"
		case f.fields != nil:
			s.Kind = "list of sections"
		case f.isList():
			s.Kind = "list"
		case f.typ.Kind() == reflect.Map:
			s.Kind = "headers"
		}
		switch t := f.valueType(); {
		case t == typeDuration:
			s.Type = "duration"
		case t == typeSize:
			s.Type = "size"
		case t.Kind() == reflect.Int, t.Kind() == reflect.Float64:
			s.Type = "number"
		default:
			s.Type = "text"
		}
		all = append(all, s)
	})
	return all
}

// ParseDuration and ParseSize are parseDuration and parseSize, for fuzzing.
var ParseDuration, ParseSize = parseDuration, parseSize
