package jobslab

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
)

// WeirOptions configure weir's jobs.
type WeirOptions struct {
	Dir        string // folder of the embedded server's data; created and removed
	Durability jobs.Durability
	Events     bool // finished jobs are not kept
}

type weirSystem struct {
	o      WeirOptions
	server *embedded.Server
	conn   *nats.Conn
	store  *jobs.Store
	queue  *jobs.Queue[int64, struct{}]
}

var (
	_ System        = (*weirSystem)(nil)
	_ ManySubmitter = (*weirSystem)(nil)
)

// OpenWeir returns weir's jobs on a server in this process.
func OpenWeir(ctx context.Context, o WeirOptions) (System, error) {
	w := &weirSystem{o: o}
	if err := w.open(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *weirSystem) open(ctx context.Context) (err error) {
	if w.server, err = embedded.Start(embedded.Options{Dir: filepath.Join(w.o.Dir, "server"), Durability: w.o.Durability}); err != nil {
		return err
	}
	if w.conn, err = w.server.Connect(); err != nil {
		return err
	}
	if w.store, err = jobs.Open(ctx, w.conn, jobs.StoreOptions{Durability: w.server.Durability()}); err != nil {
		return err
	}
	w.queue, err = jobs.NewQueue[int64, struct{}](ctx, w.store, "numbers", w.queueOptions())
	return err
}

func (w *weirSystem) queueOptions() jobs.QueueOptions {
	o := jobs.QueueOptions{MaxQueued: 10_000_000} // the other systems have no bound
	if w.o.Events {
		o.ResultTTL = jobs.None
	}
	return o
}

func (w *weirSystem) Submit(ctx context.Context, number int64) error {
	_, err := w.queue.Submit(ctx, number, jobs.SubmitOptions{})
	return err
}

// SubmitMany submits the numbers in one call.
func (w *weirSystem) SubmitMany(ctx context.Context, numbers []int64) error {
	many := make([]jobs.Submission[int64], len(numbers))
	for i, n := range numbers {
		many[i].Input = n
	}
	_, err := w.queue.SubmitMany(ctx, many)
	return err
}

func (w *weirSystem) Work(workers int, do func(int64)) (func() error, error) {
	worker, err := w.queue.Work(func(_ context.Context, job *jobs.Job[int64]) (struct{}, error) {
		do(job.Input)
		return struct{}{}, nil
	}, jobs.WorkerOptions{Concurrency: workers})
	if err != nil {
		return nil, err
	}
	return func() error { return worker.Close(context.Background()) }, nil
}

func (w *weirSystem) Idle(ctx context.Context) (bool, error) {
	all, err := w.store.Queues(ctx)
	left := 0
	for _, q := range all {
		left += q.Waiting + q.Taken
	}
	return left == 0, err
}

// Clear starts again with an empty folder.
func (w *weirSystem) Clear(ctx context.Context) error {
	if err := w.Close(); err != nil {
		return err
	}
	return w.open(ctx)
}

func (w *weirSystem) Close() error {
	var errs []error
	if w.store != nil {
		errs = append(errs, w.store.Close(context.Background()))
	}
	if w.conn != nil {
		w.conn.Close()
	}
	if w.server != nil {
		errs = append(errs, w.server.Close(context.Background()))
	}
	w.store, w.conn, w.server = nil, nil, nil
	return errors.Join(append(errs, os.RemoveAll(w.o.Dir))...)
}
