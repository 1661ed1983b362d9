package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/report"
	"github.com/weir-go/weir/lab/result"
)

// reportCmd is weir-lab report.
type reportCmd struct {
	Files []string `arg:"" name:"results" help:"Result files of runs. For a scenario in several files, the last one counts."`
	HTML  string   `name:"html" placeholder:"FILE" help:"Write the page to this file."`
	Docs  string   `placeholder:"DIR" help:"Write the figures and pictures into the marked places in the documents of this checkout of weir."`
}

// Run is the command.
func (c *reportCmd) Run(r *command.Run) error {
	if f := c.faults(); len(f) > 0 {
		return &command.UsageError{Command: "weir-lab report", Faults: f}
	}
	run, err := readAll(c.Files)
	if err != nil {
		return err
	}
	if c.HTML != "" {
		if err := writePage(c.HTML, run); err != nil {
			return err
		}
	}
	if c.Docs != "" {
		if run.Head.Size != result.Full {
			return fmt.Errorf("the documents quote full runs; this one is of the %s size", run.Head.Size)
		}
		changed, err := report.UpdateDocs(c.Docs, run)
		if err != nil {
			return err
		}
		for _, name := range changed {
			fmt.Fprintln(r.Stderr, "wrote", name)
		}
	}
	return report.Summary(r.Stdout, run, style(r))
}

// faults returns what is wrong with the names on the command line.
func (c *reportCmd) faults() (f command.Faults) {
	for _, name := range c.Files {
		if at, err := os.Stat(name); err != nil {
			f = append(f, err)
		} else if at.IsDir() {
			f = append(f, fmt.Errorf("%s: want a result file, not a folder", name))
		}
	}
	if at, err := os.Stat(c.Docs); c.Docs != "" && (err != nil || !at.IsDir()) {
		f.Add("docs", c.Docs, "an existing folder")
	}
	return f
}

// readAll reads result files as one run.
func readAll(names []string) (result.Run, error) {
	var run result.Run
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return run, err
		}
		one, err := result.Read(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return run, fmt.Errorf("%s: %w", name, err)
		}
		run.Head = one.Head
		for _, s := range one.Scenarios {
			run.Put(s)
		}
	}
	return run, nil
}
