package jobslab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/weir-go/weir/lab/internal/resp"
)

// AsynqOptions configure asynq.
type AsynqOptions struct {
	Addr string // of Redis, host:port

	// Check is how long, on average, a worker waits after it finds all queues empty.
	// 0: asynq's default, 1 s.
	Check time.Duration
}

// asynqConnections bounds the connections of a client and of a server to Redis: one
// for each submitter. The default is ten per processor.
const asynqConnections = 64

type asynqSystem struct {
	o         AsynqOptions
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

var _ System = (*asynqSystem)(nil)

// OpenAsynq returns asynq on a Redis.
func OpenAsynq(o AsynqOptions) System {
	redis := asynq.RedisClientOpt{Addr: o.Addr, PoolSize: asynqConnections}
	return &asynqSystem{o: o, redis: redis, client: asynq.NewClient(redis), inspector: asynq.NewInspector(redis)}
}

// asynqQueue is the queue that asynq uses by default.
const asynqQueue = "default"

func (a *asynqSystem) Submit(ctx context.Context, number int64) error {
	_, err := a.client.EnqueueContext(ctx, asynq.NewTask("number", binary.BigEndian.AppendUint64(nil, uint64(number))))
	return err
}

func (a *asynqSystem) Work(workers int, do func(int64)) (func() error, error) {
	server := asynq.NewServer(a.redis, asynq.Config{Concurrency: workers, TaskCheckInterval: a.o.Check, LogLevel: asynq.FatalLevel})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		if len(t.Payload()) != 8 {
			return fmt.Errorf("jobslab: a task of %d bytes; want 8: %w", len(t.Payload()), asynq.SkipRetry)
		}
		do(int64(binary.BigEndian.Uint64(t.Payload())))
		return nil
	}))
	return func() error { server.Shutdown(); return nil }, err
}

func (a *asynqSystem) Idle(context.Context) (bool, error) {
	info, err := a.inspector.GetQueueInfo(asynqQueue)
	if err != nil {
		return false, err
	}
	return info.Size == 0, nil // without finished ones
}

// Clear also makes a new client, because a client registers its queue with Redis only
// once.
func (a *asynqSystem) Clear(ctx context.Context) error {
	if _, err := resp.Ask(ctx, a.o.Addr, "FLUSHALL"); err != nil {
		return err
	}
	err := a.client.Close()
	a.client = asynq.NewClient(a.redis)
	return err
}

func (a *asynqSystem) Close() error { return errors.Join(a.client.Close(), a.inspector.Close()) }
