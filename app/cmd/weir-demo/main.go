// Weir-demo is weir demo as a separate program, which takes a fraction of the time to
// build: it contains no job servers, databases or telemetry.
package main

import (
	"os"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/democli"
)

func main() {
	os.Exit(democli.Main(command.OS()))
}
