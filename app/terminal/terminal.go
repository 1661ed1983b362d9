// Package terminal detects the terminal and its features, and draws the progress line of
// commands.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Is reports whether w is a terminal that understands control sequences. getenv is
// os.Getenv, except in tests.
func Is(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && getenv("TERM") != "dumb"
}

// Reads reports whether r is a terminal, on which a user can answer.
func Reads(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width returns the number of columns of w, 0 if it is not a terminal.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Color reports whether w supports color and the user wants it: NO_COLOR disables it
// (https://no-color.org).
func Color(w io.Writer, getenv func(string) string) bool {
	return Is(w, getenv) && getenv("NO_COLOR") == ""
}

// DefaultWidth is the width of a terminal if it is unknown.
const DefaultWidth = 80
