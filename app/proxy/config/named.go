package config

import (
	"fmt"
	"reflect"
	"strconv"
)

// typeFiles is the type of settings that name a file for each header field.
var typeFiles = reflect.TypeFor[map[string]string]()

// Files returns the files that settings name, by the path of the setting, as in Changes;
// an item of a list that has no name is identified by its index. A folder counts as a file.
func (c *Config) Files() map[string]string {
	files := map[string]string{}
	addFiles(files, root, "", reflect.ValueOf(c).Elem())
	return files
}

func addFiles(files map[string]string, fields []*field, path string, v reflect.Value) {
	for _, f := range fields {
		at, value := join(path, f.name), v.Field(f.index)
		switch {
		case f.form == "file":
			if name := value.String(); name != "" {
				files[at] = name
			}
		case f.typ == typeFiles:
			for _, header := range value.MapKeys() {
				files[at+"."+header.String()] = value.MapIndex(header).String()
			}
		case f.fields == nil:
		case f.isList():
			for i := range value.Len() {
				item, name := value.Index(i), strconv.Itoa(i)
				if first := item.Field(f.fields[0].index); first.Kind() == reflect.String {
					name = first.String()
				}
				addFiles(files, f.fields, fmt.Sprintf("%s[%s]", at, name), item)
			}
		case value.Kind() != reflect.Pointer:
			addFiles(files, f.fields, at, value)
		case !value.IsNil():
			addFiles(files, f.fields, at, value.Elem())
		}
	}
}
