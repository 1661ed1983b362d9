// Package cli is the command line of weir: its commands and flags, what it
// writes where, its exit codes, and what it does when it is interrupted.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weir-go/weir/app/terminal"
)

// The exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // what was asked for could not be done, or was interrupted
	ExitUsage  = 2 // what was asked for is not understood
)

// An Env is what the program has from its surroundings. All fields are
// needed.
type Env struct {
	Args   []string  // without the program's name
	Stdout io.Writer // results
	Stderr io.Writer // progress, and what goes wrong
	Getenv func(string) string

	// Signals brings the signals that ask the program to end. The first one
	// ends the command in good order, the second calls Exit.
	Signals <-chan os.Signal
	Exit    func(code int)
}

// OS returns the Env of the process. It takes over the signals that ask it to
// end; a reader of its output that goes away is an error of the write, and no
// longer the death of the process.
func OS() Env {
	signals := make(chan os.Signal, 2) // room for both that count
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	signal.Ignore(syscall.SIGPIPE)
	return Env{
		Args:    os.Args[1:],
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Signals: signals,
		Exit:    os.Exit,
	}
}

// grammar is the command line's, for kong.
type grammar struct {
	Demo demoCmd `cmd:"" help:"Show what Weir does: real work under load, one level of protection after another."`
}

const about = "Weir keeps expensive calls alive under high load."

// Main runs one command line and returns its exit code. Nothing that it
// started outlives it.
func Main(e Env) int {
	var helped bool
	parser, err := kong.New(&grammar{},
		kong.Name("weir"),
		kong.Description(about),
		kong.Writers(e.Stdout, e.Stderr),
		kong.Exit(func(int) { helped = true }), // kong leaves after --help only
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: terminal.DefaultWidth}),
		kong.ValueFormatter(helpText),
		bounds,
	)
	if err != nil {
		panic(fmt.Sprintf("cli: the grammar is wrong: %v", err))
	}
	line, err := parser.Parse(e.Args)
	if helped {
		return ExitOK
	}
	if err != nil {
		return e.fail(&usageError{command: "weir", faults: []error{err}})
	}
	ctx, end := e.interruptible(context.Background())
	defer end.stop()
	return e.fail(line.Run(&run{Env: e, ctx: ctx, end: end}))
}

// A run is what a command gets to work with.
type run struct {
	Env
	ctx context.Context // ends, with ErrInterrupted, at the first signal
	end *ending
}

// fail writes what went wrong, line by line, and returns the exit code for it.
func (e Env) fail(err error) int {
	if err == nil {
		return ExitOK
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		for _, fault := range usage.faults {
			e.complain(usage.command, fault)
		}
		fmt.Fprintf(e.Stderr, "Run \"%s --help\" for the flags and their bounds.\n", usage.command)
		return ExitUsage
	}
	for _, fault := range lines(err) {
		e.complain("weir", fault)
	}
	return ExitFailed
}

func (e Env) complain(who string, err error) {
	fmt.Fprintf(e.Stderr, "%s: %s\n", who, strings.ReplaceAll(err.Error(), "\n", "; "))
}

// lines takes joined errors apart. Of those that say that the program was
// interrupted one is enough.
func lines(err error) []error {
	var all []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			all = append(all, lines(err)...)
		}
	} else {
		all = append(all, err)
	}
	var out []error
	var interrupted bool
	for _, err := range all {
		if errors.Is(err, ErrInterrupted) {
			if interrupted {
				continue
			}
			interrupted, err = true, ErrInterrupted
		}
		out = append(out, err)
	}
	return out
}

// A usageError is a command line that cannot be run: exit code 2.
type usageError struct {
	command string // whose help says more
	faults  []error
}

func (e *usageError) Error() string { return errors.Join(e.faults...).Error() }
