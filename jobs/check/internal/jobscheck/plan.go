package jobscheck

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/weir-go/weir/jobs"
)

// Options of the queue. The times are short, so that much happens in a short run.
const (
	queueName    = "checked"
	maxAttempts  = 8
	retryInitial = 50 * time.Millisecond
	retryMax     = 500 * time.Millisecond
	keepFor      = time.Hour // for results and dead jobs: longer than any run
	opTimeout    = 2 * time.Second
	concurrency  = 8
)

func queueOptions(lease time.Duration) jobs.QueueOptions {
	return jobs.QueueOptions{
		Lease: lease, MaxAttempts: maxAttempts, RetryInitial: retryInitial, RetryMax: retryMax,
		ResultTTL: keepFor, DeadTTL: keepFor, MaxQueued: 2000, Classify: classify,
	}
}

// An input is what a job is submitted with: its name, which determines everything
// else.
type input struct {
	Name string `json:"name"`
}

// A plan is what a job is going to do.
type plan struct {
	o      jobs.SubmitOptions
	cancel time.Duration // time from the Submit to a cancel; zero: never
	fates  func(attempt int) fate
}

// A fate is how one attempt ends.
type fate struct {
	took time.Duration
	how  string // one of the outcomes
}

// The outcomes of an attempt. Its error begins with one of them.
const (
	fine      = "fine"
	transient = "transient"
	overload  = "overload"
	retryIn   = "retry-in"
	panics    = "panic"
	permanent = "permanent"    // by jobs.Permanent
	classed   = "by-class"     // by Classify
	stopped   = "context-over" // the attempt's context has ended
)

// ends reports whether no further attempt follows this outcome.
func ends(how string) bool { return how == permanent || how == classed }

// draw returns a random source that depends only on its arguments.
func draw(seed uint64, of string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(of)) // never fails
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// between draws a duration between from and to.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from)))
}

// planOf returns what the job with a given name does. Names that begin with "key-"
// are keys.
func planOf(seed uint64, name string, lease time.Duration) plan {
	r := draw(seed, name)
	var p plan
	if isKey(name) {
		p.o.Key = name
	}
	if r.IntN(10) == 0 {
		p.o.Delay = between(r, 50*time.Millisecond, lease)
	}
	if r.IntN(10) == 0 {
		p.o.Deadline = p.o.Delay + between(r, 20*time.Millisecond, lease)
	}
	if r.IntN(12) == 0 {
		p.o.Serial = fmt.Sprintf("serial-%d", r.IntN(12))
	}
	if r.IntN(4) == 0 {
		// Half of the cancels come while the job is new, queued or just started; the
		// others at any time.
		p.cancel = between(r, 0, lease)
		if r.IntN(2) == 0 {
			p.cancel = between(r, 0, 30*time.Millisecond)
		}
	}
	kind := r.IntN(100)
	p.fates = func(attempt int) fate {
		return fateOf(draw(seed, fmt.Sprint(name, "#", attempt)), kind, attempt, lease)
	}
	return p
}

func fateOf(r *rand.Rand, kind, attempt int, lease time.Duration) fate {
	f := fate{took: between(r, 0, 20*time.Millisecond), how: fine}
	switch n := r.IntN(100); {
	case n < 3:
		f.took = between(r, lease, 5*lease/2)
	case n < 20:
		f.took = between(r, 20*time.Millisecond, 300*time.Millisecond)
	}
	mend := []string{transient, overload, retryIn, panics}
	switch {
	case kind < 4: // poison
		f.how = mend[r.IntN(len(mend))]
	case kind < 10 && attempt >= 2:
		f.how = permanent
		if r.IntN(2) == 0 {
			f.how = classed
		}
	case r.IntN(5) == 0:
		f.how = mend[r.IntN(len(mend))]
	}
	return f
}
