package config

import (
	"reflect"

	"github.com/weir-go/weir/gateway"
)

// Validated is s with another judge in place of the gateway's Validate.
func (s Source) Validated(by func(gateway.Config) error) Source {
	s.validate = by
	return s
}

// GatewayFields returns the gateway's fields that settings are for, as paths
// from a gateway.Config, an Upstream and a Route.
func GatewayFields() (top, upstream, route map[string]string) {
	return gatewayAddresses(root),
		gatewayAddresses(fieldNamed(root, "upstreams").fields),
		gatewayAddresses(fieldNamed(root, "routes").fields)
}

var Distance = distance

// Parsers returns what reads each setting that is a value: the suggestion, and
// what is wrong. A suggestion may still be out of bounds.
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
