package command

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// A value is the field that a flag sets: a bool, string, *string (nil unless the flag was
// given), []string, int, uint64, float64 or time.Duration. It is a pflag.Value.
type value struct {
	field reflect.Value
	enum  []string // nil: any
}

// Set sets the field to a text of the command line.
func (v *value) Set(text string) error {
	if v.enum != nil && !slices.Contains(v.enum, text) {
		return fmt.Errorf("want %s", strings.Join(v.enum, " or "))
	}
	switch to := v.field.Addr().Interface().(type) {
	case *string:
		*to = text
	case **string:
		*to = &text
	case *[]string:
		*to = append(*to, text)
	case *bool:
		return parse(to, text, strconv.ParseBool, "true or false")
	case *int:
		return parse(to, text, strconv.Atoi, "a whole number")
	case *uint64:
		return parse(to, text, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }, "a whole number from 0")
	case *float64:
		return parse(to, text, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) }, "a number")
	case *time.Duration:
		return parse(to, text, time.ParseDuration, "a time such as 4s")
	default:
		panic(fmt.Sprintf("command: a flag cannot be a %T", to))
	}
	return nil
}

// parse sets to to the value of a text.
func parse[T any](to *T, text string, read func(string) (T, error), want string) error {
	got, err := read(text)
	if err != nil {
		return fmt.Errorf("want %s", want)
	}
	*to = got
	return nil
}

// String is for pflag, which shows it nowhere here.
func (v *value) String() string { return "" }

// Type is for pflag, which shows it nowhere here.
func (v *value) Type() string { return v.field.Kind().String() }

// isSwitch reports whether the flag needs no value.
func (v *value) isSwitch() bool { return v.field.Kind() == reflect.Bool }

// completion returns what the shell can complete the flag's value with; nil means files.
func (v *value) completion(placeholder string) cobra.CompletionFunc {
	switch {
	case v.enum != nil:
		return cobra.FixedCompletions(v.enum, cobra.ShellCompDirectiveNoFileComp)
	case placeholder == "FILE":
		return nil
	case placeholder == "DIR", placeholder == "FOLDER":
		return cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)
	default:
		return cobra.NoFileCompletions
	}
}
