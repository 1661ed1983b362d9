// Package option has the error that every package of weir returns for an
// option that is out of bounds, and gathers all faults of an options struct in
// one error. The packages call it OptionError: weir.OptionError,
// limit.OptionError and the others are this one type, so errors.As finds it
// whichever package reports it.
package option

import (
	"errors"
	"fmt"
	"strings"
)

// An Error is one fault in an options struct.
type Error struct {
	Package string // whose option it is, such as "weir"
	Field   string // its path, such as "Options.TTL"
	Value   any
	Bound   string // what the value must be, as in "at least 1"
}

// Error names the package, the field, the value and the bound.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s is %v, must be %s", e.Package, e.Field, e.Value, e.Bound)
}

// Faults gathers the faults of one package's options. Package is required.
type Faults struct {
	Package string
	Prefix  string // goes before each Field, as in "Options."

	all []error
}

// Check adds an [*Error] unless ok, and returns ok.
func (f *Faults) Check(ok bool, field string, value any, bound string) bool {
	if !ok {
		f.all = append(f.all, &Error{f.Package, f.Prefix + field, value, bound})
	}
	return ok
}

// Add adds err, which may be nil.
func (f *Faults) Add(err error) {
	if err != nil {
		f.all = append(f.all, err)
	}
}

// Adopt adds the faults of a struct that is embedded in these options, with in
// instead of from before their Fields. err joins them, or is nil.
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

// Err returns all faults, joined by errors.Join in the order they were found,
// or nil.
func (f *Faults) Err() error { return errors.Join(f.all...) }
