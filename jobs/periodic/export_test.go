package periodic

import (
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/internal/ledger"
	"github.com/weir-go/weir/option"
)

// JobOf returns a Job for a Ledger that does not look at the queue.
func JobOf(queue string, input func(time.Time) (any, error)) Job {
	return Job{queue: queue, input: input, options: jobs.SubmitOptions{}}
}

// NewWith is like New, with another Ledger.
func NewWith(l ledger.Ledger, schedules []Schedule, o Options) (*Scheduler, error) {
	o = o.withDefaults()
	f := &faults{option.Faults{Package: "periodic"}}
	var ready []Schedule
	var specs []*spec
	for _, s := range schedules {
		s = s.withDefaults()
		ready, specs = append(ready, s), append(specs, s.check(f, o))
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return start(l, ready, specs, o), nil
}

// HasJob reports whether a Schedule's Job is set.
func HasJob(s Schedule) bool { return s.Job.queue != nil }

// Faults returns the error of New for schedules of a Store, without starting them.
func Faults(schedules []Schedule, o Options) error {
	store := new(jobs.Store)
	for i := range schedules {
		schedules[i] = schedules[i].withDefaults()
		schedules[i].Job.store = store
	}
	_, err := parse(store, schedules, o.withDefaults())
	return err
}
