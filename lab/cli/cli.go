// Package cli is the command line of weir-lab: its commands and their flags.
package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/scenarios"
)

// grammar is the command line, for package command.
type grammar struct {
	List    listCmd    `cmd:"" help:"List the scenarios, with the question and the requirements of each."`
	Run     runCmd     `cmd:"" help:"Run scenarios, and write a report."`
	Compare compareCmd `cmd:"" help:"Send two URLs of your own the same load, in turn, and report the ratio."`
	Report  reportCmd  `cmd:"" help:"Write the report of runs again from their result files."`
	Soak    soakCmd    `cmd:"" help:"Inject faults into three gateways under mixed load for a long time, and check every response."`
}

// Main runs one command line and returns its exit code. Nothing that it
// started outlives it.
func Main(e command.Env) int {
	return command.Main(e, command.Program{
		Name:    "weir-lab",
		About:   "Run every high-load pattern, before and after, on this machine and with real engines.",
		Grammar: &grammar{},
		Vars:    compareVars,
	})
}

// listCmd is weir-lab list.
type listCmd struct {
	JSON bool `name:"json" help:"Write one JSON object per line."`
}

// Run is the command.
func (c *listCmd) Run(r *command.Run) error {
	if c.JSON {
		enc := json.NewEncoder(r.Stdout)
		for _, s := range scenarios.All() {
			needs := append([]string{}, s.Needs...)
			if err := enc.Encode(map[string]any{"name": s.Name, "title": s.Title, "asks": s.Asks, "needs": needs, "published": s.Published != nil}); err != nil {
				return err
			}
		}
		return nil
	}
	tw := tabwriter.NewWriter(r.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "scenario\tneeds\twhat it shows")
	for _, s := range scenarios.All() {
		fmt.Fprintf(tw, "%s\t%s\t%s\n", s.Name, cmp.Or(strings.Join(s.Needs, ", "), "-"), s.Title)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(r.Stdout, "\nweir-lab run NAME... runs the named ones, weir-lab run all runs all.")
	return err
}
