package jobslab

import "context"

// A System is a queue that accepts jobs and gives them to workers. Submit is safe for
// concurrent use; the other methods are called one at a time.
type System interface {
	// Submit submits the job with that number.
	Submit(ctx context.Context, number int64) error

	// Work starts that many workers, which call do with the numbers of jobs. stop
	// ends them.
	Work(workers int, do func(number int64)) (stop func() error, err error)

	// Idle reports whether the system itself has no unfinished job left.
	Idle(ctx context.Context) (bool, error)

	// Clear removes all jobs. It is called without running workers.
	Clear(ctx context.Context) error

	// Close releases the System's resources.
	Close() error
}

// A ManySubmitter is a System that accepts several jobs in one call.
type ManySubmitter interface {
	SubmitMany(ctx context.Context, numbers []int64) error
}
