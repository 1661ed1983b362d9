package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/jobs"
)

// limitSpan is the range of --limit.
var limitSpan = command.Span[int]{Least: 1, Most: jobsctl.MaxLimit}

// jobsCmd is weir jobs.
type jobsCmd struct {
	jobsSource
	List   jobsListCmd   `cmd:"" help:"List jobs, most recently changed first."`
	Show   jobsShowCmd   `cmd:"" help:"Show everything about a job, or follow it until it ends."`
	Dead   jobsDeadCmd   `cmd:"" help:"List dead jobs: those that used up their attempts, with the last error of each."`
	Queues jobsQueuesCmd `cmd:"" help:"Count the unfinished jobs of each queue."`
	Pause  jobsPauseCmd  `cmd:"" help:"Pause a queue: none of its jobs starts, in any program."`
	Resume jobsResumeCmd `cmd:"" help:"Resume a paused queue."`
	Retry  jobsRetryCmd  `cmd:"" help:"Queue failed, dead or canceled jobs again."`
	Cancel jobsCancelCmd `cmd:"" help:"Cancel jobs: no further attempt starts, and no result is kept."`
	Drop   jobsDropCmd   `cmd:"" help:"Delete finished jobs."`
	Repair jobsRepairCmd `cmd:"" help:"Recover the jobs in a folder with damaged files."`
}

// Help is the longer part of weir jobs --help.
func (jobsCmd) Help() string {
	return `Manages jobs, through a running proxy or the NATS servers that store them.

Quick start:

    export WEIR_JOBS_ADMIN=http://127.0.0.1:9090   # or WEIR_JOBS_NATS=nats://127.0.0.1:4222
    weir jobs queues                        # is something piling up?
    weir jobs dead                          # what has died, and why
    weir jobs show 3f9a12c4                 # everything about one job
    weir jobs retry 3f9a12c4                # run it again
    weir jobs retry --all --state dead --queue mail

An id may be shortened to its first 6 characters or more. Each flag that sets where the jobs are has a variable: WEIR_JOBS_ADMIN, WEIR_JOBS_NATS, WEIR_JOBS_NAMESPACE, WEIR_JOBS_TOKEN_FILE, WEIR_JOBS_USER, WEIR_JOBS_PASSWORD_FILE, WEIR_JOBS_CREDS. Flags win.

States: queued (not started, or delayed), running, retrying (waits for its next attempt), done, failed (permanently, or not started in time), dead (no attempts left), canceled.

Exit code: 0 success; 1 no such job, wrong state of the job, or no response; 2 wrong usage.`
}

// A jobsRun is a parsed command of weir jobs with its connection.
type jobsRun struct {
	*command.Run
	jobsctl.Source
}

// run parses the flags that all commands share, connects, and calls do. more adds the
// faults of the command's own flags.
func (c *jobsCmd) run(r *command.Run, name string, more func(*command.Faults), do func(jobsRun) error) error {
	var f command.Faults
	var place jobsPlace
	if err := r.Await(func() { place = c.place(r.Getenv, &f) }); err != nil {
		return err
	}
	more(&f)
	if len(f) > 0 {
		return &command.UsageError{Command: "weir jobs " + name, Faults: f}
	}
	s, err := place.open(r.Context)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(jobsRun{r, s})
}

// List reads jobs. That is slow if there are many, so it shows progress on the terminal.
func (r jobsRun) List(ctx context.Context, q jobsctl.Query) (jobsctl.Page, error) {
	progress := r.Progress()
	defer progress.Close()
	started := time.Now()
	progress.Start("reading jobs", func() string { return time.Since(started).Truncate(time.Second).String() })
	return r.Source.List(ctx, q)
}

// style returns the style of standard output.
func (r jobsRun) style() jobsctl.Style {
	return jobsctl.Style{Width: terminal.Width(r.Stdout), Color: terminal.Color(r.Stdout, r.Getenv)}
}

// write writes v as JSON or as text.
func (r jobsRun) write(asJSON bool, v any, people func(io.Writer, jobsctl.Style) error) error {
	if asJSON {
		return jobsctl.WriteJSON(r.Stdout, v)
	}
	return people(r.Stdout, r.style())
}

// jobsListCmd is weir jobs list.
type jobsListCmd struct {
	Queue string `placeholder:"NAME" help:"Only this queue."`
	State string `placeholder:"STATE" help:"Only these states, separated by commas: ${states}."`
	Limit string `default:"100" placeholder:"N" help:"The maximum number of jobs (${limits})."`
	JSON  bool   `name:"json" help:"Write a JSON object, with an array of jobs in it."`
}

// Help is the longer part of weir jobs list --help.
func (jobsListCmd) Help() string {
	return `Examples:

    weir jobs list --state running
    weir jobs list --queue mail --state retrying,dead --limit 20
    weir jobs list --json | jq -r '.jobs[] | select(.attempt > 3) | .id'

Output that does not go to a terminal has whole ids and errors. "more" in the JSON means that there are more than --limit.`
}

// Run runs the command.
func (c *jobsListCmd) Run(r *command.Run, at *jobsCmd) error {
	q := jobsctl.Query{Queue: c.Queue}
	return at.run(r, "list", func(f *command.Faults) {
		q.Limit = f.Number("limit", c.Limit, limitSpan)
		q.States = states(c.State, jobsctl.AllStates(), f)
	}, func(r jobsRun) error {
		page, err := r.List(r.Context, q)
		if err != nil {
			return err
		}
		return r.write(c.JSON, page, func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteList(w, page, q, s) })
	})
}

// states parses a flag --state, which allows only some of the states.
func states(text string, of []jobs.State, f *command.Faults) []jobs.State {
	if text == "" {
		return nil
	}
	all, err := jobsctl.ParseStates(text)
	for _, s := range all {
		if !contains(of, s) {
			err = errors.Join(err, fmt.Errorf("want %s", jobsctl.Words(of, "or")))
			break
		}
	}
	if err != nil {
		*f = append(*f, fmt.Errorf("--state=%s: %w", text, err))
	}
	return all
}

// jobsDeadCmd is weir jobs dead.
type jobsDeadCmd struct {
	Queue string `placeholder:"NAME" help:"Only this queue."`
	Limit string `default:"100" placeholder:"N" help:"The maximum number of jobs (${limits})."`
	JSON  bool   `name:"json" help:"Write a JSON object, with an array of jobs in it."`
}

// Help is the longer part of weir jobs dead --help.
func (jobsDeadCmd) Help() string {
	return `A job is dead once all its attempts have failed, or its input cannot be read. It is kept for a week, unless its queue is configured otherwise, and blocks no other job.

Examples:

    weir jobs dead --queue mail
    weir jobs show 3f9a12c4                           # every attempt of one
    weir jobs retry --all --state dead --queue mail   # once the cause is fixed
    weir jobs drop 3f9a12c4                           # or never again`
}

// Run runs the command.
func (c *jobsDeadCmd) Run(r *command.Run, at *jobsCmd) error {
	q := jobsctl.Query{Queue: c.Queue, States: []jobs.State{jobs.StateDead}}
	return at.run(r, "dead", func(f *command.Faults) {
		q.Limit = f.Number("limit", c.Limit, limitSpan)
	}, func(r jobsRun) error {
		page, err := r.List(r.Context, q)
		if err != nil {
			return err
		}
		return r.write(c.JSON, page, func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteDead(w, page, q, s) })
	})
}

// jobsQueuesCmd is weir jobs queues.
type jobsQueuesCmd struct {
	JSON bool `name:"json" help:"Write a JSON object, with an array of queues in it."`
}

// Help is the longer part of weir jobs queues --help.
func (jobsQueuesCmd) Help() string {
	return `waiting: jobs that no worker has taken; if their number grows, there are too few workers, or none. oldest: how long the oldest of them has waited. taken: jobs that run, wait for their next attempt, or are delayed. dead: jobs that have failed all their attempts; see weir jobs dead.`
}

// Run runs the command.
func (c *jobsQueuesCmd) Run(r *command.Run, at *jobsCmd) error {
	return at.run(r, "queues", func(*command.Faults) {}, func(r jobsRun) error {
		all, err := r.Queues(r.Context)
		if err != nil {
			return err
		}
		if all == nil {
			all = []jobs.QueueStatus{} // not null in JSON
		}
		return r.write(c.JSON, jobsctl.QueuePage{Queues: all}, func(w io.Writer, s jobsctl.Style) error {
			return jobsctl.WriteQueues(w, all, s)
		})
	})
}
