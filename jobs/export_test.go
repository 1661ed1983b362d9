package jobs

import (
	"context"
	"time"
)

// WithDefaults fills in what is left open, as NewQueue does.
func (o QueueOptions) WithDefaults() QueueOptions { return o.withDefaults() }

// Delay is how long a job waits for its next attempt, after so many that count, the
// last of which has failed with err.
func Delay(o QueueOptions, spent int, err error) time.Duration {
	a := attempt{record: record{Spent: spent}, w: &Worker{queue: &queue{o: o}}}
	return a.delay(err)
}

// LeaderPause is the pause before a cluster's word that there is no job is taken.
const LeaderPause = leaderPause

// FirstOf asks for a job in one queue after another.
func FirstOf[T any](ctx context.Context, queues []string, confirm bool, ask func(queue string) (*T, error)) (*T, string, error) {
	return firstOf(ctx, queues, confirm, ask)
}
