// Command jobs-check submits jobs while it kills and stops the processes involved,
// and checks the outcome against what package jobs promises.
//
//	jobs-check --mode single --for 3m --seed 7
//
// It exits with status 1 and shows the histories if a rule is broken, and with status
// 2 if the check itself fails. It belongs to this module because it starts servers
// with the module's internal packages. It is not shipped to users.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/check/internal/jobscheck"
)

func main() {
	jobscheck.Main()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	var o jobscheck.Options
	mode := flag.String("mode", string(jobscheck.Single), "single, embedded or cluster")
	flag.TextVar(&o.Durability, "durability", jobs.Durability(0), "process or disk, for a single server; default disk")
	flag.DurationVar(&o.For, "for", 2*time.Minute, "how long to inject faults")
	flag.Uint64Var(&o.Seed, "seed", uint64(time.Now().UnixNano()), "decides what is submitted and what fails")
	flag.IntVar(&o.Submitters, "submitters", 0, "number of submitter processes; default 3")
	flag.IntVar(&o.Workers, "workers", 0, "number of worker processes; default 3")
	flag.Float64Var(&o.Rate, "rate", 0, "submissions per second of each submitter; default 30")
	flag.DurationVar(&o.Lease, "lease", 0, "lease of the queue; default 2s")
	flag.DurationVar(&o.FaultEvery, "fault-every", 0, "mean time between faults; default 700ms")
	flag.DurationVar(&o.Settle, "settle", 0, "time for all jobs to finish after the faults; default 1m")
	dir := flag.String("dir", "", "folder for the stores and the log, which is kept; default: a temporary folder, kept if a rule is broken")
	asJSON := flag.Bool("json", false, "write the report as JSON")
	flag.Parse()
	o.Mode, o.Dir, o.Progress = jobscheck.Mode(*mode), *dir, os.Stderr

	if *dir == "" {
		made, err := os.MkdirTemp("", "jobs-check-")
		if err != nil {
			return trouble(err)
		}
		o.Dir = made
	}
	r, err := jobscheck.Run(ctx, o)
	if err != nil {
		return trouble(fmt.Errorf("%w (see %s)", err, o.Dir))
	}
	if *asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		r.Print(os.Stdout)
	}
	if err != nil {
		return trouble(err)
	}
	if len(r.Violations) > 0 {
		fmt.Fprintln(os.Stderr, "the log and the stores are in", o.Dir)
		return 1
	}
	if *dir == "" {
		os.RemoveAll(o.Dir)
	}
	return 0
}

func trouble(err error) int {
	fmt.Fprintln(os.Stderr, "jobs-check:", err)
	return 2
}
