package fromasynq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/weir-go/weir/examples/migrate/internal/mail"
)

// Before sends mails with asynq.
type Before struct {
	client *asynq.Client
	server *asynq.Server
}

// NewBefore opens the queue, and starts a worker.
func NewBefore(redis string, send func(context.Context, mail.Mail) error) (*Before, error) {
	opt := asynq.RedisClientOpt{Addr: redis}
	b := &Before{asynq.NewClient(opt), asynq.NewServer(opt, asynq.Config{
		Concurrency:    10,
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration { return time.Second << n },
	})}
	mux := asynq.NewServeMux()
	mux.HandleFunc("mail", func(ctx context.Context, t *asynq.Task) error {
		var m mail.Mail
		if err := json.Unmarshal(t.Payload(), &m); err != nil {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		err := send(ctx, m)
		if errors.Is(err, mail.ErrNoAddress) {
			return fmt.Errorf("%w: %w", err, asynq.SkipRetry)
		}
		return err
	})
	return b, b.server.Start(mux)
}

// Enqueue has a mail sent after delay, once for each order.
func (b *Before) Enqueue(ctx context.Context, m mail.Mail, delay time.Duration) error {
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = b.client.EnqueueContext(ctx, asynq.NewTask("mail", payload),
		asynq.TaskID(m.Order), asynq.ProcessIn(delay), asynq.Retention(24*time.Hour))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return nil // it is there
	}
	return err
}

// Close waits for the mails that are being sent.
func (b *Before) Close() error {
	b.server.Shutdown()
	return b.client.Close()
}
