// Package cli is the command line of weir: its commands and their flags.
package cli

import (
	"fmt"
	"runtime"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/console/build"
)

// grammar is the command line, for package command.
type grammar struct {
	Demo   demoCmd   `cmd:"" help:"Demonstrate Weir: real work under load, with one level of protection after another."`
	Proxy  proxyCmd  `cmd:"" help:"Protect a slow HTTP service: coalescing, cache, limits."`
	Worker workerCmd `cmd:"" help:"Run the jobs that a proxy has accepted, in a separate process."`
	Top    topCmd    `cmd:"" help:"Show the overview of a running proxy in the terminal."`
	Jobs   jobsCmd   `cmd:"" help:"Manage jobs: list, show, retry, cancel, drop."`
	Keys   keysCmd   `cmd:"" name:"idempotency" help:"List calls whose outcome is unknown, and settle them."`

	VersionCmd versionCmd `cmd:"" name:"version" help:"Print the version."`
}

// version is what weir --version prints.
func version() string {
	return fmt.Sprintf("weir %s (%s, %s/%s)", build.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionCmd is weir version.
type versionCmd struct{}

// Run runs the command.
func (versionCmd) Run(r *command.Run) error {
	_, err := fmt.Fprintln(r.Stdout, version())
	return err
}

// Main runs one command line and returns its exit code. Nothing that it
// started outlives it.
func Main(e command.Env) int {
	return command.Main(e, command.Program{
		Name:    "weir",
		About:   "Weir keeps expensive calls alive under high load.",
		Version: version(),
		Grammar: &grammar{},
		Vars:    bounds(),
	})
}
