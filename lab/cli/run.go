package cli

import (
	"fmt"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/lab/scenarios"
)

// runCmd is weir-lab run.
type runCmd struct {
	Names   []string `arg:"" name:"scenario" help:"Names of scenarios from weir-lab list, or all."`
	Out     string   `default:"lab-report" placeholder:"DIR" help:"Folder for the results and the report."`
	Small   bool     `help:"Run at a small size, in seconds, to see that it works. Times are not judged."`
	Grid    bool     `help:"Measure every cell in the scenarios that have a grid (gateway, gateway-pass). It takes most of an hour."`
	Install bool     `help:"First install missing engines and tools."`
	JSON    bool     `name:"json" help:"Write the results to standard output, one JSON object per line, instead of tables."`
}

// Help is the longer part of weir-lab run --help.
func (runCmd) Help() string {
	return `Engines (PostgreSQL, Cassandra, Redis, nginx, Varnish, Caddy) are started on free loopback ports with data in a temporary folder, and always stopped. Running servers are not touched.

Examples:

    weir-lab run do-once expensive-call
    weir-lab run all --install          # three quarters of an hour
    weir-lab run all --small            # see that it works

Exit code: 0 all checks hold; 1 a check failed, or a scenario could not be run; 2 wrong usage.`
}

// Run is the command.
func (c *runCmd) Run(r *command.Run) error {
	chosen, err := c.choose()
	if err != nil {
		return &command.UsageError{Command: "weir-lab run", Faults: []error{err}}
	}
	if err := c.install(r, chosen); err != nil {
		return err
	}
	s, err := newSession(r, c.Out, c.JSON, scenario.Config{Small: c.Small, Grid: c.Grid})
	if err != nil {
		return err
	}
	return s.run(r, chosen)
}

// choose returns the requested scenarios.
func (c *runCmd) choose() ([]scenario.Scenario, error) {
	if len(c.Names) == 1 && c.Names[0] == "all" {
		return scenarios.All(), nil
	}
	return scenario.Find(scenarios.All(), c.Names...)
}

// install makes sure that all engines and tools are installed before the first
// scenario starts.
func (c *runCmd) install(r *command.Run, chosen []scenario.Scenario) error {
	if !c.Install {
		return scenario.Missing(chosen)
	}
	for _, s := range chosen {
		for _, name := range s.Needs {
			if err := engine.Install(r.Context, r.Stderr, name); err != nil {
				return err
			}
		}
		for _, name := range s.Optional {
			if err := engine.Install(r.Context, r.Stderr, name); err != nil {
				fmt.Fprintf(r.Stderr, "%s is measured without %s: %v\n", s.Name, name, err)
			}
		}
	}
	return nil
}
