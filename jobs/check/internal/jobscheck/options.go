package jobscheck

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A Mode says where the servers run.
type Mode string

const (
	Single   Mode = "single"   // one server, in a separate process
	Embedded Mode = "embedded" // one server, in the first submitter's process
	Cluster  Mode = "cluster"  // three servers, each in a separate process
)

// Options of a Run.
type Options struct {
	Mode Mode
	// Durability applies to a single or embedded server: jobs.DurabilityDisk, the
	// default, or jobs.DurabilityProcess.
	Durability jobs.Durability

	For  time.Duration // duration of faults and submissions. Required.
	Seed uint64        // decides what is submitted and what fails, but not the outcome of races

	// Submitters and Workers are the numbers of processes. Default: 3 and 3.
	Submitters, Workers int
	// Rate is submissions per second of each submitter. Default: 30.
	Rate float64
	// Lease is the lease of the queue. Default: 2 s.
	Lease time.Duration
	// Slack is how late an event may be on a busy machine. Default: 2 s.
	Slack time.Duration
	// FaultEvery is the mean time between two faults. Default: 700 ms.
	FaultEvery time.Duration
	// ServerRest is the least time between two faults of servers. Default: 1 s; with
	// Cluster 8 s, because an election takes some seconds, and nothing happens
	// without a leader.
	ServerRest time.Duration
	// Settle is how long all jobs may take to finish after the faults. Default: 1
	// minute.
	Settle time.Duration

	Dir      string    // for the stores and the log, which stay there. Required.
	Progress io.Writer // nil: no progress
}

func (o Options) validate() (Options, error) {
	var errs []error
	switch o.Mode {
	case Single, Embedded:
		if o.Durability == 0 {
			o.Durability = jobs.DurabilityDisk
		}
		if o.Durability == jobs.DurabilityMajority {
			errs = append(errs, errors.New("jobscheck: Durability majority needs Mode cluster"))
		}
	case Cluster:
		if o.Durability != 0 && o.Durability != jobs.DurabilityMajority {
			errs = append(errs, fmt.Errorf("jobscheck: Durability %v with a cluster; want majority", o.Durability))
		}
		o.Durability = jobs.DurabilityMajority
		setDefault(&o.ServerRest, 8*time.Second)
	default:
		errs = append(errs, fmt.Errorf("jobscheck: Mode %q; want %q, %q or %q", o.Mode, Single, Embedded, Cluster))
	}
	if o.For <= 0 {
		errs = append(errs, fmt.Errorf("jobscheck: For %v; want above 0", o.For))
	}
	if o.Dir == "" {
		errs = append(errs, errors.New("jobscheck: Dir is required"))
	}
	setDefault(&o.Submitters, 3)
	setDefault(&o.Workers, 3)
	setDefault(&o.Rate, 30)
	setDefault(&o.Lease, 2*time.Second)
	setDefault(&o.Slack, 2*time.Second)
	setDefault(&o.ServerRest, time.Second)
	setDefault(&o.FaultEvery, 700*time.Millisecond)
	setDefault(&o.Settle, time.Minute)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	return o, errors.Join(errs...)
}

func setDefault[T int | float64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
