// Command gate runs the repository's gates, cheap ones first. It stops at the first
// failure. At the end it lists the steps, how long each took, and which could not run.
//
//	go run ./tools/gate check   gates that need only Go: gofmt, vet, the core, staticcheck
//	go run ./tools/gate tests   every module's tests, an upgrade and a rollback, the race
//	                            detector, the oldest Go, a new user, a release
//	go run ./tools/gate race    every module's tests with the race detector
//	go run ./tools/gate fuzz    every fuzz target for a short time
//
// lab/cmd/with starts the engines that tests and race need; the Makefile combines the
// two.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// A step is one gate. It returns an error if the gate fails, and a note if it cannot run
// on this machine.
type step struct {
	name string
	run  func(ctx context.Context) (note string, err error)
}

var sets = map[string][]step{
	"check": {
		{"gofmt", gofmt},
		{"vet", vet},
		{"the core alone", core},
		{"staticcheck", staticcheck},
	},
	"tests": {
		{"every module's tests", tests},
		{"an upgrade and a rollback, against earlier versions", versions},
		{"race detector", raceCore},
		{"the core with " + oldestGo, coreWithOldestGo},
		{"new user", newUser},
		{"release, short form", release},
	},
	"race": {{"race detector, every module", raceAll}},
	"fuzz": {{"fuzz", fuzz}},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 || sets[args[0]] == nil {
		return errors.New("usage: gate check | tests | race | fuzz")
	}
	if err := enterRoot(); err != nil {
		return err
	}
	var ran []string
	for _, s := range sets[args[0]] {
		fmt.Printf("\n== %s\n", s.name)
		began := time.Now()
		note, err := s.run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		line := fmt.Sprintf("%6.1fs  %s", time.Since(began).Seconds(), s.name)
		if note != "" {
			line += ": NOT RUN, " + note
		}
		ran = append(ran, line)
	}
	fmt.Printf("\n== %s: passed\n", args[0])
	for _, line := range ran {
		fmt.Println(line)
	}
	return nil
}

// enterRoot changes to the root of the checkout.
func enterRoot() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return errors.New("no go.work here or above: run this in the checkout")
		}
		dir = filepath.Dir(dir)
	}
}
