// Package command is the common part of command lines: output streams, reporting all faults
// at once, exit codes, and interrupts. A grammar is a struct whose tags describe commands
// and flags; package cobra parses the command line and completes it in shells.
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

	"github.com/spf13/cobra"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/plain"
)

// The exit codes.
const (
	ExitOK     = 0
	ExitFailed = 1 // the command failed, or was interrupted
	ExitUsage  = 2 // the command line is wrong
)

// An Env is the environment of the program. All fields except Stdin are required.
type Env struct {
	Args   []string  // without the program's name
	Stdin  io.Reader // answers to questions; nil: nobody can answer
	Stdout io.Writer // results
	Stderr io.Writer // progress and errors
	Getenv func(string) string

	// Signals delivers the signals that ask the program to stop. The first one stops the
	// command cleanly, the second calls Exit.
	Signals <-chan os.Signal
	Exit    func(code int)
}

// OS returns the Env of the process. It handles the signals that ask the process to stop.
// If the reader of its output goes away, the write fails; SIGPIPE no longer kills the
// process.
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
// Run(*command.Run) error. They may have the method Help() string, which returns the longer
// part of the help; ${command} in it stands for the command as the user calls it.
type Program struct {
	Name    string
	About   string
	Version string            // printed for --version; "": there is no such flag
	Grammar any               // a pointer to a struct; its fields' tags are those of tree.root
	Vars    map[string]string // of the flags' help
}

// Main runs one command line and returns its exit code. It leaves nothing running.
func Main(e Env, p Program) int {
	log.SetFlags(0)
	log.SetOutput(strays{e, p.Name})
	cobra.MousetrapHelpText = "" // on Windows, cobra would wait for a key
	t := &tree{program: p}
	root := t.root(e)
	root.strict()
	if c, err := root.command.ExecuteC(); err != nil {
		return e.fail(p.Name, &UsageError{Command: c.CommandPath(), Faults: []error{err}})
	}
	if t.version {
		fmt.Fprintln(e.Stdout, p.Version)
	}
	if t.chosen == nil {
		return ExitOK
	}
	ctx, end := e.interruptible(context.Background(), p.Name)
	defer end.stop()
	return e.fail(p.Name, t.chosen.run(&Run{Env: e, Context: ctx, Command: t.chosen.command.CommandPath(), end: end}))
}

// A Run is what a command works with.
type Run struct {
	Env
	Context context.Context // ends, with ErrInterrupted, at the first signal
	Command string          // as the user calls it, such as "weir demo"

	end *ending
}

// Leaves sets what would be left behind if the program stopped at once, for a user who
// interrupts it twice; "" means nothing.
func (r *Run) Leaves(what string) { r.end.leaves(what) }

// Hangups delivers SIGHUPs from now on; otherwise they stop the program like any other
// signal. Several pending ones count as one.
func (r *Run) Hangups() <-chan struct{} { return r.end.catchHangups() }

// Await calls f and waits for it. At the first signal it returns [ErrInterrupted], and f
// continues alone. It is for work that cannot be interrupted but ends soon, such as reading
// a file that may be a FIFO.
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

// fail writes err, line by line, and returns its exit code.
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

// strays writes messages that the standard library logs, such as those of net/http about a
// connection, like any other line of the program.
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

// lines splits joined errors. It keeps only one of those that report the interrupt.
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

// reference is the page that explains the configuration settings.
const reference = "https://github.com/weir-go/weir/blob/main/docs/reference/proxy-configuration.md"

// A ConfigError is a configuration that cannot be used: exit code 2, like a wrong command
// line, because the same person fixes both.
type ConfigError struct {
	Command string // whose help says more
	Text    string // whole lines, with the position of the fault
}

func (e *ConfigError) Error() string { return strings.TrimSuffix(e.Text, "\n") }
