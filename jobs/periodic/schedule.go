package periodic

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/ledger"
)

// A Schedule submits a job at each of its ticks. All instances of a program pass the
// same Schedules to New.
type Schedule struct {
	// Name identifies the schedule in the Store, for all programs that share its
	// namespace: 1 to 64 letters, digits, ., - and _. Required.
	Name string

	// Spec is when the schedule has its ticks: a cron expression of 5 fields (minute,
	// hour, day of the month, month, day of the week), of 6 (seconds first) or of 7
	// (seconds first, years last); @yearly, @monthly, @weekly, @daily, @midnight or
	// @hourly; or @every with a duration of whole seconds. The package comment describes
	// them. Required.
	Spec string

	// Zone is the IANA name of the time zone of a cron expression, such as
	// "Europe/Berlin". Empty: UTC. @every does not depend on it.
	Zone string

	// Job is what a tick submits, see Submit. Required.
	Job Job

	// Missed is what becomes of ticks that no instance has submitted within Grace.
	// Default: MissedLatest.
	Missed Missed

	// CatchUp is the number of missed ticks that MissedAll submits; older ones are
	// skipped. From 1 to MaxCatchUp. Default: DefaultCatchUp. With another rule it has
	// to be zero.
	CatchUp int

	// Grace is how late a tick can be submitted before it counts as missed. From 1 s to
	// 24 h. Default: DefaultGrace.
	Grace time.Duration
}

// A Missed is the rule for missed ticks: those that no instance has submitted within
// Schedule.Grace, because none ran, or the server or the queue did not accept jobs.
type Missed uint8

const (
	// MissedLatest submits the latest of the missed ticks, unless a later tick is on
	// time.
	MissedLatest Missed = iota
	// MissedSkip submits none.
	MissedSkip
	// MissedAll submits the latest Schedule.CatchUp of them, in their order.
	MissedAll

	missedEnd
)

var missedNames = [missedEnd]string{"latest", "skip", "all"}

// String returns "latest", "skip" or "all".
func (m Missed) String() string {
	if m < missedEnd {
		return missedNames[m]
	}
	return fmt.Sprintf("missed(%d)", m)
}

// A Job is what a Schedule submits. Create it with Submit; the zero Job is invalid.
type Job struct {
	queue   any // a *jobs.Queue
	store   any // its *jobs.Store
	options jobs.SubmitOptions
	input   func(tick time.Time) (any, error)
}

// Submit returns the Job that submits input's result to q. input receives the instant of
// the tick, in the Schedule's Zone, and must depend on nothing else: any instance may
// call it, more than once, and only one result is used. It must be quick. If it returns
// an error or panics, that is an EventTrouble, and it is called again later.
//
// The job's key is the schedule's name, @, and the tick in UTC, as in
// "nightly@2026-11-25T02:00:00Z". SubmitOptions can set its Delay, Deadline, Serial and
// Owner.
func Submit[In, Out any](q *jobs.Queue[In, Out], input func(tick time.Time) (In, error), o jobs.SubmitOptions) Job {
	if q == nil || input == nil {
		return Job{}
	}
	return Job{
		queue: q, store: ledger.StoreOf(q), options: o,
		input: func(tick time.Time) (any, error) { return input(tick) },
	}
}

// keyOf returns the key of a tick's job.
func keyOf(name string, tick time.Time) string {
	return name + "@" + tick.UTC().Format(time.RFC3339)
}

// claim claims the job of a tick.
func (r *runner) claim(ctx context.Context, tick time.Time) (ledger.Claim, bool, error) {
	var in any
	err := guarded("input", func() (err error) {
		in, err = r.schedule.Job.input(tick.In(r.spec.loc))
		return err
	})
	if err != nil {
		return ledger.Claim{}, false, fmt.Errorf("periodic: schedule %q: %w", r.schedule.Name, err)
	}
	o := r.schedule.Job.options
	o.Key = keyOf(r.schedule.Name, tick)
	return r.ledger.Claim(ctx, r.schedule.Job.queue, in, o)
}
