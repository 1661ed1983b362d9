// Package cli is the command line of weir: its commands and their flags.
package cli

import "github.com/weir-go/weir/app/command"

// grammar is the command line's, for kong.
type grammar struct {
	Demo   demoCmd   `cmd:"" help:"Show what Weir does: real work under load, one level of protection after another."`
	Proxy  proxyCmd  `cmd:"" help:"Stand before a slow HTTP service and keep it alive: coalescing, cache, limits."`
	Worker workerCmd `cmd:"" help:"Make the jobs that a proxy has accepted, apart from it."`
	Jobs   jobsCmd   `cmd:"" help:"Look after jobs: list, show, retry, cancel, drop."`
}

// Main runs one command line and returns its exit code. Nothing that it
// started outlives it.
func Main(e command.Env) int {
	return command.Main(e, command.Program{
		Name:    "weir",
		About:   "Weir keeps expensive calls alive under high load.",
		Grammar: &grammar{},
		Vars:    bounds,
	})
}
