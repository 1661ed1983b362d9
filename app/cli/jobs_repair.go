package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/plain"
)

// jobsRepairCmd is weir jobs repair.
type jobsRepairCmd struct {
	Dir      string `placeholder:"FOLDER" help:"The folder with the jobs: jobs.dir of the proxy's configuration."`
	Config   string `short:"c" placeholder:"FILE" help:"The proxy's configuration, instead of --dir."`
	DryRun   bool   `help:"Only report, change nothing."`
	Restored bool   `help:"The folder was restored from a copy: continue with fences far above those in the copy."`
	JSON     bool   `name:"json" help:"Write a JSON object, with every job that is missing."`
}

// Help is the longer part of weir jobs repair --help.
func (jobsRepairCmd) Help() string {
	return `Recovers the jobs in a folder with damaged files. The proxy does not open such a folder and leaves it unchanged. The proxy may keep running during the repair as long as it does not use the folder.

Everything readable is kept, including data after the damage. Data that is cut is first copied to weir.cut in the folder. A job whose progress is missing is treated like one that lost its worker: it is retried, or dead if it must not run twice. Fences continue above those already issued.

Examples:

    weir jobs repair --dir /var/lib/weir/jobs --dry-run   # what is missing, and what can be recovered
    weir jobs repair --dir /var/lib/weir/jobs
    weir jobs repair --dir /var/lib/weir/jobs --restored  # after restoring the whole folder from a copy

Then reload or restart the proxy.

Exit code: 0 nothing is damaged, or it was repaired; 1 the repair failed, the folder contains no jobs, or with --dry-run something is damaged; 2 wrong usage.`
}

// errDamaged means that a dry run has found damage.
var errDamaged = errors.New("the jobs are damaged; run without --dry-run to repair them")

// Run runs the command.
func (c *jobsRepairCmd) Run(r *command.Run) error {
	dir, err := c.folder()
	if err != nil {
		return err
	}
	report, err := embedded.Repair(dir, embedded.RepairOptions{DryRun: c.DryRun, Restored: c.Restored})
	if err != nil {
		if errors.Is(err, embedded.ErrInUse) {
			err = fmt.Errorf("%w; stop it first", err)
		}
		return err
	}
	if c.JSON {
		err = jobsctl.WriteJSON(r.Stdout, report)
	} else {
		err = writeRepair(r.Stdout, report)
	}
	if err == nil && c.DryRun && report.Damaged() {
		err = errDamaged
	}
	return err
}

// folder returns the folder with the jobs.
func (c *jobsRepairCmd) folder() (string, error) {
	switch {
	case c.Dir != "" && c.Config != "":
		return "", &command.UsageError{Command: "weir jobs repair", Faults: command.Faults{errors.New("--dir and --config: want one of them, not both")}}
	case c.Dir != "":
		return c.Dir, nil
	case c.Config == "":
		return "", &command.UsageError{Command: "weir jobs repair", Faults: command.Faults{errors.New("which folder? want --dir FOLDER, or --config FILE with jobs.dir")}}
	}
	read, err := config.Load(config.Source{File: c.Config, Env: os.Environ()})
	if err != nil {
		return "", &command.ConfigError{Command: "weir jobs repair", Text: faultText(err)}
	}
	if read.Jobs == nil || read.Jobs.Dir == "" {
		return "", fmt.Errorf("%s has no jobs.dir: servers in jobs.nats repair their own files", c.Config)
	}
	return read.Jobs.Dir, nil
}

// missingShown is how many missing jobs the text output lists.
const missingShown = 20

// writeRepair writes a report as text.
func writeRepair(w io.Writer, r *embedded.Report) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "namespace\tjobs\tmissing\tlast message\tlast recorded\tcontinues at")
	for _, s := range r.Streams {
		next := "-"
		if s.Next > 0 {
			next = fmt.Sprint(s.Next)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%s\n", plain.Line(s.Namespace), s.Jobs, s.Lost(), s.Last, s.Mark, next)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, s := range r.Streams {
		for _, d := range s.Damage {
			fmt.Fprintln(w, plain.Line(fmt.Sprint(d)))
		}
		for i, m := range s.Missing {
			if i == missingShown {
				fmt.Fprintf(w, "and %d more: see --json\n", len(s.Missing)-i)
				break
			}
			fmt.Fprintf(w, "%s of %s in queue %s is missing, written %s UTC\n", m.What, plain.Line(m.ID), plain.Line(m.Queue), m.Since.UTC().Format(time.DateTime))
		}
	}
	switch {
	case r.Changed:
		fmt.Fprintf(w, "Repaired. The data that was cut is in %s. Reload or restart the proxy.\n", r.Copy)
	case r.Damaged():
		fmt.Fprintln(w, "Nothing has been changed.")
	case !r.DryRun:
		fmt.Fprintln(w, "Nothing is damaged, and nothing has been changed.")
	default:
		fmt.Fprintln(w, "Nothing is damaged.")
	}
	return nil
}
