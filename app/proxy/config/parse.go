package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// Limits on a file. No file written by hand reaches them.
const (
	MaxFileBytes = 1 << 20 // of the file
	// MaxVariableBytes bounds each variable.
	MaxVariableBytes = 64 << 10
	MaxValues        = 100_000 // values in the file, with aliases expanded
	MaxFaults        = 100     // that are reported
)

// parseYAML reads one document. For an empty file it returns an empty mapping.
func parseYAML(file string, text []byte) (*yaml.Node, *Fault) {
	if len(text) > MaxFileBytes {
		return nil, &Fault{File: file, Problem: fmt.Sprintf("is larger than %v", Size(MaxFileBytes))}
	}
	if f := unreadable(file, text); f != nil {
		return nil, f
	}
	loader, err := yaml.NewLoader(bytes.NewReader(text))
	if err != nil {
		return nil, syntaxFault(file, text, err)
	}
	var doc, second yaml.Node
	switch err := loader.Load(&doc); {
	case err == io.EOF:
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}, nil
	case err != nil:
		return nil, syntaxFault(file, text, err)
	}
	switch err := loader.Load(&second); {
	case err == nil:
		return nil, at(file, text, second.Line, second.Column, "has a second document; only one is allowed")
	case err != io.EOF:
		return nil, syntaxFault(file, text, err)
	}
	if len(doc.Content) != 1 {
		return nil, at(file, text, 1, 1, "is not a document")
	}
	return doc.Content[0], nil
}

// unreadable finds the first invalid byte of a file. The parser would find it, too, but
// does not report where, and accepts UTF-16.
func unreadable(file string, text []byte) *Fault {
	line, column := 1, 1
	for rest := text; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			return at(file, nil, line, column, fmt.Sprintf("has the byte %#02x, which is not UTF-8; write the file in UTF-8", rest[0]))
		case r < ' ' && r != '\n' && r != '\r' && r != '\t', r == 0x7f:
			return at(file, nil, line, column, fmt.Sprintf("has the control character %#02x", r))
		case isBreak(r):
			line, column = line+1, 0
			if bytes.HasPrefix(rest, []byte("\r\n")) {
				size = 2
			}
		case r == '\uFEFF' && line == 1 && column == 1:
			column = 0
		}
		rest, column = rest[size:], column+1
	}
	return nil
}

// isBreak reports whether r ends a line in YAML 1.1, and therefore for the parser.
func isBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// splitLines returns the lines of a file as the parser counts them.
func splitLines(text []byte) []string {
	rest := strings.ReplaceAll(string(text), "\r\n", "\n")
	var lines []string
	for {
		i := strings.IndexFunc(rest, isBreak)
		if i < 0 {
			return append(lines, rest)
		}
		_, size := utf8.DecodeRuneInString(rest[i:])
		lines, rest = append(lines, rest[:i]), rest[i+size:]
	}
}

// at returns a fault at a place that is not a setting. Without text there is no
// snippet.
func at(file string, text []byte, line, column int, problem string) *Fault {
	f := &Fault{File: file, Line: line, Column: column, Problem: problem}
	if text != nil {
		f.Snippet = broken(splitLines(text), line)
	}
	return f
}

func syntaxFault(file string, text []byte, err error) *Fault {
	load, ok := errors.AsType[*yaml.LoadError](err)
	if !ok {
		return &Fault{File: file, Problem: "is not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	line, column := load.Mark.Line, load.Mark.Column
	problem := "is not YAML: " + load.Message
	if load.ContextMsg != "" {
		problem += " " + load.ContextMsg
		if c := load.ContextMark; c.Line > 0 && c.Line != line {
			problem += fmt.Sprintf(" that starts on line %d", c.Line)
		}
	}
	if last := len(splitLines(bytes.TrimRight(text, "\r\n"))); line > last && load.ContextMark.Line > 0 {
		line, column = load.ContextMark.Line, load.ContextMark.Column // rather than the end of the file, which shows nothing
	}
	f := at(file, text, line, column, problem)
	switch {
	case strings.Contains(problem, "tab character"), tabAt(text, line, column):
		f.Problem += "; indent with spaces, not tabs"
	case strings.Contains(problem, "anchor") || strings.Contains(problem, "alias"):
		f.Problem += `; a string that begins with * or & must be quoted`
	case strings.Contains(problem, "cannot start any token"):
		f.Problem += `; put the string in quotes`
	}
	return f
}

// tabAt reports whether there is a tab at a place.
func tabAt(text []byte, line, column int) bool {
	lines := splitLines(text)
	if line < 1 || line > len(lines) {
		return false
	}
	r := []rune(lines[line-1])
	return column >= 1 && column <= len(r) && r[column-1] == '\t'
}

// broken returns a line, safe to show, of a file that could not be parsed. The
// structure of the file is unknown. If a line above it with less indentation opens a
// section of secret values, none of them is shown.
func broken(lines []string, line int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	text := lines[line-1]
	indent := indentation(text)
	for i := line - 1; i >= 0; i-- {
		above := lines[i]
		if strings.TrimSpace(above) == "" || i != line-1 && indentation(above) >= indent {
			continue
		}
		indent = indentation(above)
		if holdsSecrets(above) {
			return ""
		}
	}
	return showLine(text)
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }

// holdsSecrets reports whether a line opens, or is, a section of secret values.
func holdsSecrets(line string) bool {
	found := false
	eachField(root, "", func(_ string, f *field) {
		if f.secret {
			for _, word := range strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" {,:-\t\"'", r) }) {
				found = found || word == f.name
			}
		}
	})
	return found
}
