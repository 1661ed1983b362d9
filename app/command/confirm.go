package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/plain"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 1024

// Confirm returns ErrDeclined if the answer was not yes.
var ErrDeclined = errors.New("nothing was done")

// Confirm asks a question on the terminal, and returns nil for yes. Without a terminal it
// returns an error; otherwise is its advice on what to do instead.
func (r *Run) Confirm(question, otherwise string) error {
	if r.Stdin == nil || !terminal.Reads(r.Stdin) {
		return fmt.Errorf("%s %s; %w", question, otherwise, ErrDeclined)
	}
	fmt.Fprintf(r.Stderr, "%s [y/N] ", plain.Line(question))
	answer := make(chan string, 1)
	// A read from a terminal cannot be interrupted: after a signal it ends with the
	// process.
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(r.Stdin, maxAnswer)).ReadString('\n')
		answer <- line
	}()
	select {
	case <-r.Context.Done():
		fmt.Fprintln(r.Stderr)
		return context.Cause(r.Context)
	case line := <-answer:
		switch strings.ToLower(strings.TrimSpace(line)) {
		case "y", "yes":
			return nil
		}
		return ErrDeclined
	}
}
