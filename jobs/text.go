package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"unicode/utf8"
)

// errNotText is the error of JSON for a value with a string that is not UTF-8.
var errNotText = errors.New("jobs: a string is not UTF-8, and JSON would change it; use []byte, or another Codec")

// marshal encodes a value as JSON. encoding/json replaces invalid UTF-8 in strings by
// U+FFFD. It writes the replacement as an escape, and a character U+FFFD of the value
// itself as three bytes, so only values with that escape are looked through.
func marshal(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err == nil && bytes.Contains(text, []byte(`\ufffd`)) && !isText(reflect.ValueOf(v), 0) {
		err = errNotText
	}
	if err != nil {
		return nil, err
	}
	return text, nil
}

// deepest bounds how deep isText looks; encoding/json refuses cycles before.
const deepest = 1000

// isText reports whether all strings in v are UTF-8. Values that encode themselves are not
// looked through.
func isText(v reflect.Value, depth int) bool {
	if !v.IsValid() || depth > deepest || v.Type().Implements(jsonMarshaler) {
		return true
	}
	switch v.Kind() {
	case reflect.String:
		return utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return isText(v.Elem(), depth+1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return true // base64
		}
		for i := range v.Len() {
			if !isText(v.Index(i), depth+1) {
				return false
			}
		}
	case reflect.Map:
		for all := v.MapRange(); all.Next(); {
			if !isText(all.Key(), depth+1) || !isText(all.Value(), depth+1) {
				return false
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get("json") != "-" && !isText(v.Field(i), depth+1) {
				return false
			}
		}
	}
	return true
}

var jsonMarshaler = reflect.TypeFor[json.Marshaler]()
