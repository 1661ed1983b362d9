// Package option has the error that every package of weir returns for an option that
// is out of bounds, and collects all faults of an options struct in one error. The
// packages call it OptionError: weir.OptionError, limit.OptionError and the others are
// the same type, so errors.As finds it no matter which package reports it.
package option

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// An Error is one fault in an options struct.
type Error struct {
	Package string // the package of the option, such as "weir"
	Field   string // its path, such as "Options.TTL"
	Value   any    // the value that was rejected
	Bound   string // what the value must be, such as "at least 1"
}

// Error names the package, the field, the value and the bound.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s is %v, must be %s", e.Package, e.Field, e.Value, e.Bound)
}

// Faults collects the faults of one package's options. Package is required.
type Faults struct {
	Package string
	Prefix  string // prepended to each Field, such as "Options."

	all []error
}

// Check adds an [*Error] if ok is false, and returns ok.
func (f *Faults) Check(ok bool, field string, value any, bound string) bool {
	if !ok {
		f.all = append(f.all, &Error{f.Package, f.Prefix + field, value, bound})
	}
	return ok
}

// Filled adds an [*Error] if v, an interface, holds a nil pointer, function, map or channel:
// its methods would fail on their first use. It reports whether v is usable. A v that is
// nil itself is no fault.
func (f *Faults) Filled(field string, v any) bool {
	ok := true
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Chan:
		ok = !r.IsNil()
	}
	return f.Check(ok, field, fmt.Sprintf("a nil %T", v), "nil itself, or filled")
}

// Add adds err, which may be nil.
func (f *Faults) Add(err error) {
	if err != nil {
		f.all = append(f.all, err)
	}
}

// Adopt adds the faults of a struct embedded in these options. err joins those faults,
// or is nil. In each Field the prefix from is replaced by in.
func (f *Faults) Adopt(in, from string, err error) {
	joined, _ := err.(interface{ Unwrap() []error }) //nolint:errorlint // joined errors are taken apart one by one
	if joined == nil {
		f.Add(err)
		return
	}
	for _, err := range joined.Unwrap() {
		if e, ok := err.(*Error); ok { //nolint:errorlint // as above
			err = &Error{f.Package, f.Prefix + in + strings.TrimPrefix(e.Field, from), e.Value, e.Bound}
		}
		f.Add(err)
	}
}

// Err returns all faults in the order in which they were found, joined by errors.Join,
// or nil if there are none.
func (f *Faults) Err() error { return errors.Join(f.all...) }
