package jobs

import (
	"context"
	"time"
)

// WithDefaults sets the defaults, as NewQueue does.
func (o QueueOptions) WithDefaults() QueueOptions { return o.withDefaults() }

// Delay returns how long a job waits for its next attempt, after spent attempts, the
// last of which failed with err.
func Delay(o QueueOptions, spent int, err error) time.Duration {
	a := attempt{record: record{Spent: spent}, w: &Worker{queue: &queue{o: o}}}
	return a.delay(err)
}

// LeaderPause is the pause before a cluster's report that there is no job is
// accepted.
const LeaderPause = leaderPause

// FirstOf queries one queue after another for a job.
func FirstOf[T any](ctx context.Context, queues []string, confirm bool, ask func(queue string) (*T, error)) (*T, string, error) {
	return firstOf(ctx, queues, confirm, ask)
}
