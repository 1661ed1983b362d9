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

// AsynqOptions say how asynq is used.
type AsynqOptions struct {
	Addr string // of Redis, host:port

	// Check is how long, on the average, a worker waits after it has found all
	// queues empty. 0: asynq's default, 1 s.
	Check time.Duration
}

// asynqConnections is how many connections to Redis a client and a server have
// at most: one for each submitter. The default is ten for each processor.
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

// asynqQueue is the queue that asynq takes by default.
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
	return info.Size == 0, nil // without those that are over
}

// Clear makes a new client too: one that has told Redis of its queue does not
// do so again.
func (a *asynqSystem) Clear(ctx context.Context) error {
	if _, err := resp.Ask(ctx, a.o.Addr, "FLUSHALL"); err != nil {
		return err
	}
	err := a.client.Close()
	a.client = asynq.NewClient(a.redis)
	return err
}

func (a *asynqSystem) Close() error { return errors.Join(a.client.Close(), a.inspector.Close()) }
