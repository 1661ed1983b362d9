// Weir keeps expensive calls alive under high load; its commands demonstrate it and protect
// services that are not written in Go.
package main

import (
	"os"

	"github.com/weir-go/weir/app/cli"
	"github.com/weir-go/weir/app/command"
)

func main() {
	os.Exit(cli.Main(command.OS()))
}
