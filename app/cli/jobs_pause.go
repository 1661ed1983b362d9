package cli

import (
	"fmt"
	"io"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/plain"
)

// jobsPauseCmd is weir jobs pause.
type jobsPauseCmd struct {
	Queue string `arg:"" placeholder:"QUEUE" help:"The queue."`
	JSON  bool   `name:"json" help:"Write a JSON object."`
}

// Help is the longer part of weir jobs pause --help.
func (jobsPauseCmd) Help() string {
	return `No job of the queue starts, in any program, until weir jobs resume. Running jobs finish, and new jobs are accepted until the queue is full. The pause outlives restarts.`
}

// Run runs the command.
func (c *jobsPauseCmd) Run(r *command.Run, at *jobsCmd) error {
	return at.setPaused(r, "pause", c.Queue, true, c.JSON)
}

// jobsResumeCmd is weir jobs resume.
type jobsResumeCmd struct {
	Queue string `arg:"" placeholder:"QUEUE" help:"The queue."`
	JSON  bool   `name:"json" help:"Write a JSON object."`
}

// Run runs the command.
func (c *jobsResumeCmd) Run(r *command.Run, at *jobsCmd) error {
	return at.setPaused(r, "resume", c.Queue, false, c.JSON)
}

func (c *jobsCmd) setPaused(r *command.Run, name, queue string, paused, asJSON bool) error {
	return c.run(r, name, func(*command.Faults) {}, func(r jobsRun) error {
		if err := r.SetPaused(r.Context, queue, paused); err != nil {
			return err
		}
		o := jobsctl.PauseOutcome(queue, paused)
		return r.write(asJSON, o, func(w io.Writer, _ jobsctl.Style) error {
			_, err := fmt.Fprintf(w, "Queue %s is %s.\n", plain.Line(o.Queue), o.Did)
			return err
		})
	})
}
