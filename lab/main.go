// Weir-lab demonstrates every high-load pattern, before and after, on this machine
// and with real engines.
package main

import (
	"os"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/lab/cli"
	"github.com/weir-go/weir/lab/internal/proc"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/lab/scenarios"
	"github.com/weir-go/weir/lab/soak"
)

func main() {
	scenario.Child(scenarios.All())
	soak.Child()
	proc.DieWithParent()
	os.Exit(cli.Main(command.OS()))
}
