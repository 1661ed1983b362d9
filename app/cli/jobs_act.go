package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/figures"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// jobsActFlags select the jobs to act on.
type jobsActFlags struct {
	IDs   []string `arg:"" optional:"" name:"id" help:"The jobs' ids, or the first ${minid} characters or more of each."`
	All   bool     `help:"Act on all jobs in the states of --state, instead of ids."`
	State string   `placeholder:"STATE" help:"With --all: the states, separated by commas."`
	Queue string   `placeholder:"NAME" help:"Only this queue."`
	Yes   bool     `short:"y" help:"With --all: do not ask for confirmation."`
	JSON  bool     `name:"json" help:"Write a JSON object, with an array of the outcome for each job."`
}

type jobsRetryCmd struct{ jobsActFlags }

type jobsCancelCmd struct{ jobsActFlags }

type jobsDropCmd struct{ jobsActFlags }

// Help is the longer part of weir jobs retry --help.
func (jobsRetryCmd) Help() string {
	return `The job keeps its id and its input, and gets all its attempts again.

Examples:

    weir jobs retry 3f9a12c4 77b0e1
    weir jobs retry --all --state dead --queue mail`
}

// Help is the longer part of weir jobs cancel --help.
func (jobsCancelCmd) Help() string {
	return `After the command returns, no attempt starts, and no result is stored. A running attempt is canceled through its context, and ends when its handler returns.

Examples:

    weir jobs cancel 3f9a12c4
    weir jobs cancel --all --state queued,retrying --queue mail`
}

// Help is the longer part of weir jobs drop --help.
func (jobsDropCmd) Help() string {
	return `A dropped job cannot be restored. Its result is deleted too, and its key is free.

Examples:

    weir jobs drop 3f9a12c4
    weir jobs drop --all --state dead --queue mail`
}

func (c *jobsRetryCmd) Run(r *command.Run, at *jobsCmd) error  { return c.act(r, at, jobsctl.Retry) }
func (c *jobsCancelCmd) Run(r *command.Run, at *jobsCmd) error { return c.act(r, at, jobsctl.Cancel) }
func (c *jobsDropCmd) Run(r *command.Run, at *jobsCmd) error   { return c.act(r, at, jobsctl.Drop) }

// act applies v to the named jobs, or to all in some states.
func (c *jobsActFlags) act(r *command.Run, at *jobsCmd, v jobsctl.Verb) error {
	var ids []string
	var in []jobs.State
	return at.run(r, string(v), func(f *command.Faults) {
		ids, in = c.choose(v, f)
	}, func(r jobsRun) error {
		if c.All {
			return c.actOnAll(r, v, in)
		}
		found, err := jobsctl.Pick(r.Context, r, c.Queue, ids)
		outcomes, failed := jobsctl.Act(r.Context, r, v, found, nil)
		return errors.Join(c.tell(r, outcomes, func(w io.Writer) { eachOutcome(w, outcomes) }), err, failed)
	})
}

// choose parses which jobs are meant.
func (c *jobsActFlags) choose(v jobsctl.Verb, f *command.Faults) (ids []string, in []jobs.State) {
	for _, text := range c.IDs {
		ids = append(ids, jobID(text, f))
	}
	in = states(c.State, v.States(), f)
	switch {
	case c.All && len(c.IDs) > 0:
		*f = append(*f, errors.New("--all: want no ids beside it"))
	case c.All && c.State == "":
		*f = append(*f, fmt.Errorf("--all: wants --state too, %s", jobsctl.Words(v.States(), "or")))
	case !c.All && len(c.IDs) == 0:
		*f = append(*f, fmt.Errorf(`which jobs? want ids, as "weir jobs list" shows them, or --all with --state`))
	case !c.All && c.State != "":
		*f = append(*f, errors.New("--state: can only be used with --all"))
	}
	return ids, in
}

// actOnAll applies v to all jobs in some states after confirmation.
func (c *jobsActFlags) actOnAll(r jobsRun, v jobsctl.Verb, in []jobs.State) error {
	q := jobsctl.Query{Queue: c.Queue, States: in, Limit: jobsctl.MaxLimit}
	page, err := r.List(r.Context, q)
	if err != nil {
		return err
	}
	if n := len(page.Jobs); n > 0 && !c.Yes {
		if err := r.Confirm(fmt.Sprintf("%s %s?", v, some(n, in, c.Queue)), "Say it with --yes"); err != nil {
			return err
		}
	}
	var done atomic.Int64 // an atomic, as the progress is drawn by another goroutine
	progress := r.Progress()
	progress.Start(string(v), func() string { return fmt.Sprintf("%d of %d", done.Load(), len(page.Jobs)) })
	outcomes, failed := jobsctl.Act(r.Context, r, v, page.Jobs, func(n int) { done.Store(int64(n)) })
	progress.Close()
	return errors.Join(c.tell(r, outcomes, func(w io.Writer) {
		n := 0
		for _, o := range outcomes {
			if o.Did != "" {
				n++
			}
		}
		fmt.Fprintf(w, "%s: %s", plain.Line(some(n, in, c.Queue)), v.Past())
		if left := len(outcomes) - n; left > 0 {
			fmt.Fprintf(w, ", %s not", figures.Count(int64(left)))
		}
		fmt.Fprintln(w)
		if page.More {
			fmt.Fprintln(w, "There are more; run the command again for those.")
		}
	}), failed)
}

// tell writes the outcomes of the jobs.
func (c *jobsActFlags) tell(r jobsRun, outcomes []jobsctl.Outcome, people func(io.Writer)) error {
	return r.write(c.JSON, map[string]any{"jobs": outcomes}, func(w io.Writer, _ jobsctl.Style) error {
		people(w)
		return nil
	})
}

// eachOutcome writes a line for each job that was acted on; the others are reported as
// errors.
func eachOutcome(w io.Writer, outcomes []jobsctl.Outcome) {
	for _, o := range outcomes {
		if o.Did != "" {
			fmt.Fprintf(w, "%s  %s  %s\n", plain.Line(o.ID), plain.Line(o.Queue), o.Did)
		}
	}
}

// some returns how many jobs of which kind, in words.
func some(n int, in []jobs.State, queue string) string {
	noun := "jobs"
	if n == 1 {
		noun = "job"
	}
	text := fmt.Sprintf("%s %s %s", figures.Count(int64(n)), jobsctl.Words(in, "or"), noun)
	if queue != "" {
		return text + fmt.Sprintf(" of queue %q", queue)
	}
	return text + " of all queues"
}

func contains(of []jobs.State, s jobs.State) bool { return slices.Contains(of, s) }
