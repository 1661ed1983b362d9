package jobslab

import "context"

// A System is a queue that takes jobs and hands them to workers. Submit is safe
// for concurrent use; of the other methods one runs at a time.
type System interface {
	// Submit accepts the job of a number.
	Submit(ctx context.Context, number int64) error

	// Work starts so many workers, which hand the numbers of jobs to do. stop
	// ends them.
	Work(workers int, do func(number int64)) (stop func() error, err error)

	// Idle reports whether all jobs are over, as the system itself has it.
	Idle(ctx context.Context) (bool, error)

	// Clear forgets all jobs. No workers run.
	Clear(ctx context.Context) error

	// Close gives back what the System holds.
	Close() error
}

// A ManySubmitter is a System that accepts several jobs in one call.
type ManySubmitter interface {
	SubmitMany(ctx context.Context, numbers []int64) error
}
