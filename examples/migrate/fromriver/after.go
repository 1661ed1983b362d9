package fromriver

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/examples/migrate/internal/mail"
	"github.com/weir-go/weir/jobs"
)

// After sends mails with package jobs.
type After struct {
	mails  *jobs.Queue[mail.Mail, struct{}]
	worker *jobs.Worker
}

// NewAfter opens the queue, and starts a worker. The store is on a NATS server with
// JetStream, or on one inside the program (package jobs/embedded).
func NewAfter(ctx context.Context, store *jobs.Store, send func(context.Context, mail.Mail) error) (*After, error) {
	mails, err := jobs.NewQueue[mail.Mail, struct{}](ctx, store, "mail", jobs.QueueOptions{})
	if err != nil {
		return nil, err
	}
	worker, err := mails.Work(func(ctx context.Context, job *jobs.Job[mail.Mail]) (none struct{}, err error) {
		err = send(ctx, job.Input)
		if errors.Is(err, mail.ErrNoAddress) {
			err = jobs.Permanent(err)
		}
		return none, err
	}, jobs.WorkerOptions{Concurrency: 10})
	return &After{mails, worker}, err
}

// Enqueue has a mail sent after delay, once for each order.
func (a *After) Enqueue(ctx context.Context, m mail.Mail, delay time.Duration) error {
	_, err := a.mails.Submit(ctx, m, jobs.SubmitOptions{Key: m.Order, Delay: delay})
	return err
}

// Close waits for the mails that are being sent.
func (a *After) Close(ctx context.Context) error { return a.worker.Close(ctx) }
