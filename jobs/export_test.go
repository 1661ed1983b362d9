package jobs

import "time"

// Delay is how long a job waits for its next attempt, after so many that count, the
// last of which has failed with err.
func Delay(o QueueOptions, spent int, err error) time.Duration {
	a := attempt{record: record{Spent: spent}, w: &Worker{queue: &queue{o: o}}}
	return a.delay(err)
}
