package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/soak"
)

// soakCmd is weir-lab soak.
type soakCmd struct {
	For     time.Duration `default:"30m" placeholder:"TIME" help:"How long load and faults last."`
	Seed    uint64        `placeholder:"N" help:"Seed that determines the faults and their times; by default taken from the clock. It is printed."`
	Jobs    string        `enum:"disk,cluster" default:"disk" placeholder:"WHERE" help:"Where jobs are kept: disk, by each gateway itself; cluster, by three NATS servers."`
	Rate    float64       `default:"40" placeholder:"N" help:"Requests per second."`
	Every   time.Duration `default:"10s" placeholder:"TIME" help:"Average time from one fault to the next."`
	Out     string        `default:"soak" placeholder:"DIR" help:"Folder for the report, its chart, and the logs."`
	Install bool          `help:"First install Redis if it is missing."`
	JSON    bool          `name:"json" help:"Write the report to standard output as JSON, instead of the table."`
}

// Help is the longer part of weir-lab soak --help.
func (soakCmd) Help() string {
	return `Run three gateways with a fleet and jobs under mixed load, while components are killed, stopped, cut off, filled or restored from an old copy. Every response is checked.

Examples:

    weir-lab soak --for 30m
    weir-lab soak --for 10m --jobs cluster --seed 7

Exit code: 0 no faults found; 1 faults found, or the soak could not be run; 2 wrong usage.`
}

var errSoak = errors.New("the soak found faults")

// Run is the command.
func (c *soakCmd) Run(r *command.Run) error {
	if c.For < 20*time.Second || c.Rate <= 0 || c.Rate > 10000 || c.Every < time.Second {
		return &command.UsageError{Command: "weir-lab soak", Faults: []error{
			fmt.Errorf("--for %v, --rate %v, --every %v: want at least 20s, more than 0 and at most 10000, at least 1s", c.For, c.Rate, c.Every)}}
	}
	if c.Install {
		if err := engine.Install(r.Context, r.Stderr, "redis"); err != nil {
			return err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := filepath.Abs(c.Out)
	if err != nil {
		return err
	}
	data, err := os.MkdirTemp("", "weir-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	report, err := soak.Run(r.Context, soak.Options{
		Program: program, Dir: data, For: c.For, Seed: c.Seed, Cluster: c.Jobs == "cluster", Rate: c.Rate, Every: c.Every, Log: r.Stderr,
	})
	if keepErr := keepLogs(data, out); err != nil || keepErr != nil {
		return errors.Join(err, keepErr)
	}
	return c.tell(r.Stdout, report, out)
}

// keepLogs copies the logs of a soak's processes.
func keepLogs(data, out string) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	logs, err := filepath.Glob(filepath.Join(data, "*.log"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, filepath.Base(name)), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tell writes the report as text or as JSON.
func (c *soakCmd) tell(stdout io.Writer, report *soak.Report, out string) error {
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "soak.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "soak.svg"), report.Chart(), 0o644); err != nil {
		return err
	}
	if c.JSON {
		_, err = stdout.Write(append(text, '\n'))
	} else {
		if err = report.Table(stdout); err == nil {
			_, err = fmt.Fprintf(stdout, "\nThe report, its chart and the logs are in %s.\n", c.Out)
		}
	}
	if err == nil && !report.Clean() {
		err = errSoak
	}
	return err
}
