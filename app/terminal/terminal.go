// Package terminal is what the commands need to know of the terminal, if
// there is one, and the line on it that shows progress.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"
)

// Is reports whether w is a terminal that understands control sequences.
// getenv is os.Getenv, or a test's.
func Is(w io.Writer, getenv func(string) string) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && getenv("TERM") != "dumb"
}

// Reads reports whether somebody at a terminal can answer on r.
func Reads(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Width is how many columns w has, 0 if it is no terminal.
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

// Color reports whether colour on w is possible and welcome: NO_COLOR says no
// (https://no-color.org).
func Color(w io.Writer, getenv func(string) string) bool {
	return Is(w, getenv) && getenv("NO_COLOR") == ""
}

// DefaultWidth is how wide a terminal is when nothing better is known.
const DefaultWidth = 80
