package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/weir-go/weir/plain"
)

// A Fault is one error in a configuration.
type Fault struct {
	// File is where it was written: a file's name, --flag or WEIR_VARIABLE.
	File string
	// Line and Column count from 1, in characters. They are 0 outside files and if
	// something is missing from the whole file.
	Line, Column int
	// Field is the setting, such as routes[0].cache.ttl. It is empty if the file cannot be
	// read.
	Field string
	// Value is the value as written; empty for secrets and for anything but a single value.
	Value string
	// Problem describes the fault, with the bound.
	Problem string
	// Suggestion is what was probably meant, or empty.
	Suggestion string
	// Snippet is the line of the file, without secrets.
	Snippet string
}

// Error returns the fault in one line.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", f.Line, f.Column)
	}
	if f.Field != "" && f.Field != f.File {
		b.WriteString(": " + withoutUser(f.Field))
	}
	b.WriteString(": ")
	if f.Value != "" {
		fmt.Fprintf(&b, "%q ", f.Value)
	}
	b.WriteString(f.Problem)
	if f.Suggestion != "" {
		fmt.Fprintf(&b, "; did you mean %q?", f.Suggestion)
	}
	return plain.Text(strings.TrimPrefix(b.String(), ": "))
}

// Text returns the fault for people: Error, and below it the line with a caret.
func (f *Fault) Text() string {
	if f.Snippet == "" {
		return f.Error() + "\n"
	}
	runes := []rune(f.Snippet)
	before := plain.Text(string(runes[:min(max(f.Column-1, 0), len(runes))])) // escaped characters are wider
	caret := strings.Map(func(r rune) rune {
		if r != '\t' {
			r = ' '
		}
		return r
	}, before)
	return fmt.Sprintf("%s\n    %s\n    %s^\n", f.Error(), plain.Text(f.Snippet), caret)
}

// Faults holds all faults: it is the error of [Load].
type Faults []*Fault

// Error returns one line for each fault.
func (f Faults) Error() string {
	var lines []string
	for _, fault := range f {
		lines = append(lines, fault.Error())
	}
	return strings.Join(lines, "\n")
}

// Text returns one block for each fault.
func (f Faults) Text() string {
	var b strings.Builder
	for _, fault := range f {
		b.WriteString(fault.Text())
	}
	return b.String()
}

// Unwrap returns the faults as errors.
func (f Faults) Unwrap() []error {
	var errs []error
	for _, fault := range f {
		errs = append(errs, fault)
	}
	return errs
}

// sorted sorts faults: flags, then variables, then the file in order.
func (f Faults) sorted() Faults {
	rank := func(f *Fault) int {
		switch {
		case strings.HasPrefix(f.File, "--"):
			return 0
		case strings.HasPrefix(f.File, envPrefix):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(f, func(a, b *Fault) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return f
}

const (
	maxValue   = 80  // characters of a value that are shown
	maxKey     = 64  // of a key
	maxSnippet = 160 // characters of a line that are shown
)

var (
	// userinfo matches up to the last @ of a value, because a password may contain
	// anything, such as a slash. bareUser matches a user before an address, and word a
	// password without a user.
	userinfo    = regexp.MustCompile(`(\w://)(?:\S*|[^"]*)@`)
	bareUser    = regexp.MustCompile(`[^\s"'\[\]{},:/]*:[^\s"'\[\]{},/][^\s"'\[\]{},]*@`)
	word        = regexp.MustCompile(`(\w+://)?[^\s"'\[\]{},]*@`)
	urlQuery    = regexp.MustCompile(`(?s)(://[^\s"'?#]*[?#]).*`)
	query       = regexp.MustCompile(`(?s)(\?)[^\s"'?=#]*=.*`)
	secretValue = regexp.MustCompile(`(?i)^(.*?(?:token|secret|passw|authoriz|cookie|credential|api[-_]?key|private)[\w-]*["']?\s*:\s*).+$`)
	notSecret   = regexp.MustCompile(`(?i)_file["']?\s*:|_cookies["']?\s*:`)
)

// withoutUser removes what can be secret in URLs and addresses: the user, the password and
// the query. Whatever follows a query is removed with it, because its end is unknown.
func withoutUser(text string) string {
	text = bareUser.ReplaceAllString(userinfo.ReplaceAllString(text, "$1…@"), "…@")
	text = urlQuery.ReplaceAllString(word.ReplaceAllString(text, "$1…@"), "$1…")
	return query.ReplaceAllString(text, "$1…")
}

// showKey returns a key in a form that is safe to show. Inside {}, YAML reads name:value
// without a blank as a key, so what follows a name can be a secret.
func showKey(key string) (shown string, whole bool) {
	for i := range len(key) {
		if i == maxKey || !token.MatchString(key[i:i+1]) {
			return key[:i] + "…", false
		}
	}
	return key, true
}

// show returns a value in a form that is safe to show.
func show(value string) string {
	value = withoutUser(value)
	if r := []rune(value); len(r) > maxValue {
		value = string(r[:maxValue]) + "…"
	}
	return value
}

// showLine returns a line of a file without possible secrets.
func showLine(line string) string {
	line = withoutUser(strings.TrimRight(line, "\r\n"))
	if !notSecret.MatchString(line) {
		line = secretValue.ReplaceAllString(line, "$1…")
	}
	if r := []rune(line); len(r) > maxSnippet {
		line = string(r[:maxSnippet]) + "…"
	}
	return line
}
