package config

import (
	"fmt"
	"reflect"
	"slices"
)

// Changes are the differences between two configurations: the paths of settings, such as
// routes[shop].cache.ttl, in which list items are identified by name or address. They
// contain no values, which may be secret.
type Changes struct{ Added, Removed, Changed []string }

// Compare returns the changes from one Config to another. It does not read the files that
// they name.
func Compare(from, to *Config) Changes {
	var c Changes
	c.section(root, "", reflect.ValueOf(from).Elem(), reflect.ValueOf(to).Elem())
	return c
}

func (c *Changes) section(fields []*field, path string, from, to reflect.Value) {
	for _, f := range fields {
		at := join(path, f.name)
		a, b := from.Field(f.index), to.Field(f.index)
		switch {
		case f.fields == nil:
			if !reflect.DeepEqual(a.Interface(), b.Interface()) {
				c.Changed = append(c.Changed, at)
			}
		case f.isList():
			c.list(f, at, a, b)
		case a.Kind() != reflect.Pointer:
			c.section(f.fields, at, a, b)
		case a.IsNil() && !b.IsNil():
			c.Added = append(c.Added, at)
		case b.IsNil() && !a.IsNil():
			c.Removed = append(c.Removed, at)
		case !a.IsNil():
			c.section(f.fields, at, a.Elem(), b.Elem())
		}
	}
}

// list compares lists of sections, which are identified by their first setting, a name or
// an address.
func (c *Changes) list(f *field, path string, from, to reflect.Value) {
	names := func(list reflect.Value) []string {
		var all []string
		for i := range list.Len() {
			all = append(all, list.Index(i).Field(f.fields[0].index).String())
		}
		return all
	}
	was, is := names(from), names(to)
	var kept, stayed []string
	for i, name := range is {
		at := fmt.Sprintf("%s[%s]", path, name)
		j := slices.Index(was, name)
		if j < 0 {
			c.Added = append(c.Added, at)
			continue
		}
		kept = append(kept, name)
		c.section(f.fields, at, from.Index(j), to.Index(i))
	}
	for _, name := range was {
		if slices.Contains(is, name) {
			stayed = append(stayed, name)
		} else {
			c.Removed = append(c.Removed, fmt.Sprintf("%s[%s]", path, name))
		}
	}
	if !slices.Equal(kept, stayed) {
		c.Changed = append(c.Changed, path+" (order)")
	}
}
