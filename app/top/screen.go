package top

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"golang.org/x/term"
)

// A Screen is a terminal in full-screen mode. Close restores it.
type Screen struct {
	out  *os.File
	in   *os.File    // nil: no keys
	was  *term.State // of in
	Keys chan byte   // what the user types
	// Resized receives a token when the size has changed.
	Resized chan os.Signal
}

const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J" // the alternate screen, without a cursor
	leave = "\x1b[?25h\x1b[?1049l"
)

// OpenScreen switches out to full-screen mode. With an in that is a terminal, keys are read
// one by one; Ctrl-C then arrives as a key.
func OpenScreen(out *os.File, in io.Reader) (*Screen, error) {
	s := &Screen{out: out, Keys: make(chan byte), Resized: make(chan os.Signal, 1)}
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		state, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return nil, fmt.Errorf("terminal: %w", err)
		}
		s.in, s.was = f, state
		// A read from a terminal cannot be interrupted: it ends with the process.
		go func() {
			b := make([]byte, 1)
			for {
				if n, err := f.Read(b); n == 0 || err != nil {
					return
				}
				s.Keys <- b[0]
			}
		}()
	}
	notifyResized(s.Resized)
	if _, err := io.WriteString(out, enter); err != nil {
		s.Close()
		return nil, fmt.Errorf("terminal: %w", err)
	}
	return s, nil
}

// Close restores the terminal. It may be called again.
func (s *Screen) Close() {
	signal.Stop(s.Resized)
	if s.out != nil {
		_, _ = io.WriteString(s.out, leave) // a terminal that has gone needs nothing
		s.out = nil
	}
	if s.was != nil {
		_ = term.Restore(int(s.in.Fd()), s.was)
		s.was = nil
	}
}

// Size returns the columns and lines.
func (s *Screen) Size() (width, height int) {
	width, height, err := term.GetSize(int(s.out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// Draw replaces the contents of the screen.
func (s *Screen) Draw(lines []string) error {
	var b strings.Builder
	b.WriteString("\x1b[H")
	for i, line := range lines {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(line + "\x1b[K")
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(s.out, b.String())
	return err
}
