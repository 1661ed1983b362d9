package jobscheck

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weir-go/weir/jobs"
)

// A Mode says where the servers are.
type Mode string

const (
	Single   Mode = "single"   // one, a process of its own
	Embedded Mode = "embedded" // one, in the first submitter's process
	Cluster  Mode = "cluster"  // three, each a process of its own
)

// Options of a Run.
type Options struct {
	Mode Mode
	// Durability is of a single or embedded server: jobs.DurabilityDisk, the default, or
	// jobs.DurabilityProcess.
	Durability jobs.Durability

	For  time.Duration // of faults and submissions. Required.
	Seed uint64        // decides what is submitted and what fails, not who wins a race

	// Submitters and Workers are how many processes of each there are. Default: 3
	// and 3.
	Submitters, Workers int
	// Rate is submissions per second of each submitter. Default: 30.
	Rate float64
	// Lease is the queue's. Default: 2 s.
	Lease time.Duration
	// Slack is what an instant may be late by on a busy machine. Default: 2 s.
	Slack time.Duration
	// FaultEvery is the mean time between two faults. Default: 700 ms.
	FaultEvery time.Duration
	// ServerRest is the least time between two faults of servers. Default: a second;
	// with Cluster 8 s, as an election takes some, and without a leader nothing
	// happens.
	ServerRest time.Duration
	// Settle is how long, after the faults, all jobs may take to be over. Default:
	// a minute.
	Settle time.Duration

	Dir      string    // for stores and the log. Required; left as it is.
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
		errs = append(errs, errors.New("jobscheck: no Dir"))
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
