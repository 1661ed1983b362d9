package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// parkUnknown parks rows of queues that the Relay does not have, until ctx ends.
func (r *Relay) parkUnknown(ctx context.Context) {
	every := min(max(r.o.UnknownAfter/4, 500*time.Millisecond), time.Minute)
	for ctx.Err() == nil {
		if err := r.parkUnknownOnce(ctx); err != nil && ctx.Err() == nil {
			r.trouble(ctx, "", "", err)
		}
		sleep(ctx, every, nil)
	}
}

func (r *Relay) parkUnknownOnce(ctx context.Context) error {
	var unknown []string
	err := r.t.each(ctx, func(rows *sql.Rows) error {
		var queue string
		err := rows.Scan(&queue)
		if r.lanes[queue] == nil {
			unknown = append(unknown, queue)
		}
		return err
	}, r.t.sql.queues)
	for _, queue := range unknown {
		for n := r.o.Batch; err == nil && n == r.o.Batch && ctx.Err() == nil; {
			n, err = r.parkQueue(ctx, queue)
		}
	}
	if err != nil {
		return fmt.Errorf("outbox: unknown queues: %w", err)
	}
	return nil
}

// parkQueue parks the oldest rows of a queue, up to Batch of them.
func (r *Relay) parkQueue(ctx context.Context, queue string) (int, error) {
	why := fmt.Errorf("no relay has had queue %q for %v", queue, r.o.UnknownAfter)
	var ids []string
	err := r.t.each(ctx, func(rows *sql.Rows) error {
		var id string
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, r.t.sql.unknown, queue, r.o.UnknownAfter.Microseconds(), r.o.Batch, string(ReasonUnknownQueue), clip(why))
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		r.event(ctx, Event{Kind: EventParked, Queue: queue, ID: id, Reason: ReasonUnknownQueue, Err: why})
	}
	return len(ids), nil
}
