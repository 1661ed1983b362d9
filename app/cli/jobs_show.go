package cli

import (
	"fmt"
	"io"
	"sync"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/plain"
)

// jobsShowCmd is weir jobs show.
type jobsShowCmd struct {
	ID    string `arg:"" help:"The job's id, or its first ${minid} characters or more."`
	Queue string `placeholder:"NAME" help:"Search only this queue."`
	Watch bool   `short:"w" help:"Follow the job until it ends. The exit code is then 1 unless it is done."`
	JSON  bool   `name:"json" help:"Write the job as JSON; with --watch one line for each change."`
}

// Help is the longer part of weir jobs show --help.
func (jobsShowCmd) Help() string {
	return `Examples:

    weir jobs show 3f9a12c4
    weir jobs show 3f9a12c4 --watch && echo done
    weir jobs show 3f9a12c4 --json | jq .history

Inputs and results are not shown because they may be secret.`
}

// Run runs the command.
func (c *jobsShowCmd) Run(r *command.Run, at *jobsCmd) error {
	var id string
	return at.run(r, "show", func(f *command.Faults) { id = jobID(c.ID, f) }, func(r jobsRun) error {
		found, err := jobsctl.Pick(r.Context, r, c.Queue, []string{id})
		if err != nil {
			return err
		}
		j, err := r.Status(r.Context, found[0].Queue, found[0].ID) // a list has no logs
		if err != nil {
			return err
		}
		if c.Watch {
			if j, err = c.follow(r, j); err != nil {
				return err
			}
		}
		if !c.Watch || !c.JSON {
			err = r.write(c.JSON, j, func(w io.Writer, s jobsctl.Style) error { return jobsctl.WriteJob(w, j, s) })
		}
		if err == nil && c.Watch {
			err = jobsctl.Ended(j)
		}
		return err
	})
}

// jobID parses an id, or records what is wrong with it.
func jobID(text string, f *command.Faults) string {
	id, err := jobsctl.ParseID(text)
	if err != nil {
		*f = append(*f, err)
	}
	return id
}

// follow waits for the end of a job and shows its state: on a terminal in one line that is
// redrawn, elsewhere in a line for each change.
func (c *jobsShowCmd) follow(r jobsRun, j jobs.Status) (jobs.Status, error) {
	if c.JSON {
		var failed error
		j, err := jobsctl.Watch(r.Context, r, j, func(now jobs.Status, err error) {
			if err == nil && failed == nil {
				failed = jobsctl.WriteLine(r.Stdout, now)
			}
		})
		if failed != nil {
			err = failed
		}
		return j, err
	}
	if terminal.Is(r.Stderr, r.Getenv) {
		return c.draw(r, j)
	}
	return jobsctl.Watch(r.Context, r, j, func(now jobs.Status, err error) {
		if err != nil {
			fmt.Fprintf(r.Stderr, "%s: no response, retrying\n", plain.Line(now.ID))
			return
		}
		fmt.Fprintf(r.Stderr, "%s: %s\n", plain.Line(now.ID), jobsctl.Style{}.Moment(now))
	})
}

// draw follows a job on a terminal.
func (c *jobsShowCmd) draw(r jobsRun, j jobs.Status) (jobs.Status, error) {
	var mu sync.Mutex
	now, silent := j, false // guarded by mu
	progress := r.Progress()
	defer progress.Close()
	progress.Start(j.ID[:min(8, len(j.ID))], func() string {
		mu.Lock()
		defer mu.Unlock()
		text := jobsctl.Style{}.Moment(now)
		if silent {
			text = "no response, retrying; it was " + text
		}
		return text
	})
	return jobsctl.Watch(r.Context, r, j, func(s jobs.Status, err error) {
		mu.Lock()
		defer mu.Unlock()
		now, silent = s, err != nil
	})
}
