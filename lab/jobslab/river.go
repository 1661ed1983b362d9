package jobslab

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// RiverOptions configure River.
type RiverOptions struct {
	URL string // of PostgreSQL

	// Cooldown is the least time between two fetches of jobs, Poll the interval at
	// which a worker fetches jobs without a notification. 0: River's defaults, 100 ms
	// and 1 s.
	Cooldown, Poll time.Duration
}

// riverConnections bounds the connections to PostgreSQL: one for each submitter, and
// some for the workers.
const riverConnections = 72

type riverSystem struct {
	o      RiverOptions
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx] // it only submits
}

var (
	_ System        = (*riverSystem)(nil)
	_ ManySubmitter = (*riverSystem)(nil)
)

// OpenRiver returns River on PostgreSQL, and creates its tables.
func OpenRiver(ctx context.Context, o RiverOptions) (System, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = riverConnections
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &riverSystem{o: o, pool: pool}
	if err := r.prepare(ctx); err != nil {
		pool.Close()
		return nil, fmt.Errorf("river: %w", err)
	}
	return r, nil
}

func (r *riverSystem) prepare(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(r.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	r.client, err = river.NewClient(riverpgxv5.New(r.pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	return err
}

// A riverJob is a number.
type riverJob struct {
	Number int64 `json:"number"`
}

// Kind names the type of the job.
func (riverJob) Kind() string { return "number" }

func (r *riverSystem) Submit(ctx context.Context, number int64) error {
	_, err := r.client.Insert(ctx, riverJob{number}, nil)
	return err
}

func (r *riverSystem) SubmitMany(ctx context.Context, numbers []int64) error {
	many := make([]river.InsertManyParams, len(numbers))
	for i, n := range numbers {
		many[i].Args = riverJob{n}
	}
	_, err := r.client.InsertMany(ctx, many)
	return err
}

func (r *riverSystem) Work(workers int, do func(int64)) (func() error, error) {
	kinds := river.NewWorkers()
	river.AddWorker(kinds, river.WorkFunc(func(_ context.Context, job *river.Job[riverJob]) error {
		do(job.Args.Number)
		return nil
	}))
	client, err := river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}},
		Workers:           kinds,
		FetchCooldown:     r.o.Cooldown,
		FetchPollInterval: r.o.Poll,
		Logger:            slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(context.Background()); err != nil { // Stop ends it
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return client.Stop(ctx)
	}, nil
}

func (r *riverSystem) Idle(ctx context.Context) (bool, error) {
	var some bool
	err := r.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'running', 'retryable', 'scheduled', 'pending'))`).Scan(&some)
	return !some, err
}

func (r *riverSystem) Clear(ctx context.Context) error {
	_, err := r.pool.Exec(ctx, "TRUNCATE river_job")
	return err
}

func (r *riverSystem) Close() error {
	r.pool.Close()
	return nil
}
