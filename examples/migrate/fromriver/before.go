package fromriver

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/weir-go/weir/examples/migrate/internal/mail"
)

// Args are the arguments of a River job.
type Args struct {
	mail.Mail
}

// Kind names the type of the job.
func (Args) Kind() string { return "mail" }

// Before sends mails with River. The pool's database has River's tables.
type Before struct {
	client *river.Client[pgx.Tx]
}

// NewBefore opens the queue, and starts a worker.
func NewBefore(ctx context.Context, pool *pgxpool.Pool, send func(context.Context, mail.Mail) error) (*Before, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[Args]) error {
		err := send(ctx, job.Args.Mail)
		if errors.Is(err, mail.ErrNoAddress) {
			return river.JobCancel(err)
		}
		return err
	}))
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
		Workers: workers,
	})
	if err != nil {
		return nil, err
	}
	return &Before{client}, client.Start(ctx)
}

// Enqueue has a mail sent after delay, once for each order.
func (b *Before) Enqueue(ctx context.Context, m mail.Mail, delay time.Duration) error {
	_, err := b.client.Insert(ctx, Args{m}, &river.InsertOpts{
		ScheduledAt: time.Now().Add(delay),
		UniqueOpts:  river.UniqueOpts{ByArgs: true},
	})
	return err
}

// Close waits for the mails that are being sent.
func (b *Before) Close(ctx context.Context) error { return b.client.Stop(ctx) }
