// Package command is what command lines have in common: what they write where,
// faults that are reported all at once, exit codes, and what happens when they are
// interrupted. The grammar is kong's.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/plain"
)

// The exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command failed, or was interrupted
	ExitUsage  = 2 // the command line is wrong
)

// An Env is what the program has from its surroundings. All fields are needed,
// but for Stdin.
type Env struct {
	Args   []string  // without the program's name
	Stdin  io.Reader // answers to questions; nil: there is nobody to ask
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
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Signals: signals,
		Exit:    os.Exit,
	}
}

// A Program is a command line. The grammar's commands have the method
// Run(*command.Run) error.
type Program struct {
	Name    string
	About   string
	Grammar any       // a pointer to a struct with kong's tags
	Vars    kong.Vars // of the flags' help
}

// Main runs one command line and returns its exit code. Nothing that it
// started outlives it.
func Main(e Env, p Program) int {
	var helped bool
	parser, err := kong.New(p.Grammar,
		kong.Name(p.Name),
		kong.Description(p.About),
		kong.Writers(e.Stdout, e.Stderr),
		kong.Exit(func(int) { helped = true }), // kong leaves after --help only
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: terminal.DefaultWidth}),
		kong.ValueFormatter(helpText),
		p.Vars,
	)
	if err != nil {
		panic(fmt.Sprintf("command: the grammar is wrong: %v", err))
	}
	log.SetFlags(0)
	log.SetOutput(strays{e, p.Name})
	line, err := parser.Parse(e.Args)
	if helped {
		return ExitOK
	}
	if err != nil {
		return e.fail(p.Name, &UsageError{Command: p.Name, Faults: []error{err}})
	}
	ctx, end := e.interruptible(context.Background(), p.Name)
	defer end.stop()
	return e.fail(p.Name, line.Run(&Run{Env: e, Context: ctx, end: end}))
}

// A Run is what a command gets to work with.
type Run struct {
	Env
	Context context.Context // ends, with ErrInterrupted, at the first signal

	end *ending
}

// Leaves says what would be left behind if the program ended at once, for
// a user who interrupts it twice; "" means nothing.
func (r *Run) Leaves(what string) { r.end.leaves(what) }

// Hangups brings the SIGHUPs that come from now on, which else end the program
// like any other signal. Several that have not been taken are one.
func (r *Run) Hangups() <-chan struct{} { return r.end.catchHangups() }

// Await calls f, and waits for it until the first signal: then it returns
// [ErrInterrupted], and f goes on by itself. It is for what cannot be interrupted but
// ends soon anyway, such as reading a file that may be a FIFO.
func (r *Run) Await(f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-r.Context.Done():
		return context.Cause(r.Context)
	}
}

// Progress returns a Progress on standard error.
func (r *Run) Progress() *terminal.Progress {
	return terminal.NewProgress(r.Stderr, terminal.Is(r.Stderr, r.Getenv), terminal.Width(r.Stderr))
}

// fail writes what went wrong, line by line, and returns the exit code for it.
func (e Env) fail(program string, err error) int {
	if err == nil {
		return ExitOK
	}
	if usage, ok := errors.AsType[*UsageError](err); ok {
		for _, fault := range usage.Faults {
			e.complain(usage.Command, fault)
		}
		fmt.Fprintf(e.Stderr, "Run \"%s --help\" for the flags and their bounds.\n", usage.Command)
		return ExitUsage
	}
	if c, ok := errors.AsType[*ConfigError](err); ok {
		fmt.Fprint(e.Stderr, plain.Text(c.Text))
		fmt.Fprintf(e.Stderr, "Every setting: %s\n", reference)
		return ExitUsage
	}
	for _, fault := range lines(err) {
		e.complain(program, fault)
	}
	return ExitFailed
}

// maxStray is how many bytes of one message of a library are shown.
const maxStray = 1 << 10

// strays shows what the standard library says by itself, such as net/http about a
// connection, as any other line of the program.
type strays struct {
	Env
	program string
}

func (s strays) Write(p []byte) (int, error) {
	s.complain(s.program, errors.New(plain.Bounded(strings.TrimSpace(string(p)), maxStray)))
	return len(p), nil
}

func (e Env) complain(who string, err error) {
	fmt.Fprintf(e.Stderr, "%s: %s\n", who, plain.Line(strings.ReplaceAll(err.Error(), "\n", "; ")))
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

// A UsageError is a command line that cannot be run: exit code 2.
type UsageError struct {
	Command string // whose help says more
	Faults  []error
}

func (e *UsageError) Error() string { return errors.Join(e.Faults...).Error() }

// reference is where the settings of a configuration are explained.
const reference = "https://github.com/weir-go/weir/blob/main/docs/reference/proxy-configuration.md"

// A ConfigError is a configuration that cannot be used: exit code 2, as the
// command line and its files are one to who has to put them right.
type ConfigError struct {
	Command string // whose help says more
	Text    string // whole lines, which say where the fault is
}

func (e *ConfigError) Error() string { return strings.TrimSuffix(e.Text, "\n") }
