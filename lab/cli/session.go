package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/internal/checkout"
	"github.com/weir-go/weir/lab/report"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

// The files of a run, in its folder.
const (
	resultFile = "results.jsonl"
	reportFile = "report.html"
)

// A session runs scenarios and writes their results into a folder.
type session struct {
	folder string
	asJSON bool // to standard output, instead of tables
	config scenario.Config
	head   result.Head
}

// newSession returns a session with that size of the scenarios.
func newSession(r *command.Run, folder string, asJSON bool, size scenario.Config) (*session, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's file, to start it again: %w", err)
	}
	size.Program = program
	s := &session{
		folder: folder,
		asJSON: asJSON,
		config: size,
		head:   newHead(r.Context, size.Small),
	}
	if err := s.config.Pin(); err != nil {
		s.head.Notes = append(s.head.Notes, fmt.Sprintf("The load generator shares its processors with the services it measures: %v.", err))
	}
	return s, nil
}

func newHead(ctx context.Context, small bool) result.Head {
	h := result.Head{StartedAt: time.Now().UTC(), Commit: checkout.Commit(ctx, "lab/results"), Machine: result.ThisMachine(), Size: result.Full}
	if small {
		h.Size = result.Small
	}
	return h
}

// run runs the scenarios and writes the results and the page. An error of a scenario
// does not keep the others from running, and an interrupt keeps the results so far.
func (s *session) run(r *command.Run, chosen []scenario.Scenario) error {
	if err := os.MkdirAll(s.folder, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(s.folder, resultFile))
	if err != nil {
		return err
	}
	defer file.Close()
	out := io.Writer(file)
	if s.asJSON {
		out = io.MultiWriter(file, r.Stdout)
	}
	s.config.Progress = r.Progress()
	defer s.config.Progress.Close()
	run, runErr := s.all(r, chosen, out)
	return errors.Join(runErr, file.Close(), s.report(r, run))
}

// all runs the scenarios one after another.
func (s *session) all(r *command.Run, chosen []scenario.Scenario, out io.Writer) (result.Run, error) {
	run := result.Run{Head: s.head}
	w, err := result.NewWriter(out, s.head)
	if err != nil {
		return run, err
	}
	var errs []error
	for _, sc := range chosen {
		if r.Context.Err() != nil {
			return run, errors.Join(append(errs, context.Cause(r.Context))...)
		}
		res, err := s.config.Run(r.Context, sc)
		errs = append(errs, err)
		run.Scenarios = append(run.Scenarios, res)
		if err := w.Scenario(res); err != nil {
			return run, errors.Join(append(errs, err)...)
		}
		if s.asJSON {
			continue
		}
		if err := report.Scenario(r.Stdout, res, style(r)); err != nil {
			return run, errors.Join(append(errs, err)...)
		}
	}
	return run, errors.Join(errs...)
}

// report writes the summary and the page.
func (s *session) report(r *command.Run, run result.Run) error {
	name := filepath.Join(s.folder, reportFile)
	if err := writePage(name, run); err != nil {
		return err
	}
	if s.asJSON {
		return nil
	}
	if err := report.Summary(r.Stdout, run, style(r)); err != nil {
		return err
	}
	_, err := fmt.Fprintf(r.Stdout, "\nThe report is %s; the results are in %s next to it.\n", name, resultFile)
	return err
}

func writePage(name string, run result.Run) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := report.HTML(f, run); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func style(r *command.Run) report.Style {
	return report.Style{Width: terminal.Width(r.Stdout), Color: terminal.Color(r.Stdout, r.Getenv)}
}
