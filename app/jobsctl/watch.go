package jobsctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weir-go/weir/jobs"
)

// How Watch asks.
const (
	watchEvery    = 500 * time.Millisecond
	watchPatience = time.Minute // for a source that does not answer
)

// Watch follows a job until it is over, and returns how it stands then. see is
// called now and after each change, and with errors that are waited out.
func Watch(ctx context.Context, s Source, j jobs.Status, see func(jobs.Status, error)) (jobs.Status, error) {
	see(j, nil)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	var silent time.Time // since when nobody answers
	for !j.State.Terminal() {
		select {
		case <-ctx.Done():
			return j, context.Cause(ctx)
		case <-tick.C:
		}
		now, err := s.Status(ctx, j.Queue, j.ID)
		switch {
		case ctx.Err() != nil:
			return j, context.Cause(ctx)
		case isNotFound(err):
			return j, &problem{fmt.Sprintf("job %s was %s and is not there any more: it was dropped, or its queue keeps no results", j.ID, j.State), err}
		case gone(err):
			if silent.IsZero() {
				silent = time.Now()
			}
			if time.Since(silent) > watchPatience {
				return j, err
			}
			see(j, err)
		case err != nil:
			return j, err
		default:
			silent = time.Time{}
			if now.Revision != j.Revision || now.State != j.State {
				j = now
				see(j, nil)
			}
		}
	}
	return j, nil
}

// Ended is the error of a job that was followed to an end other than done, nil
// for one that is done.
func Ended(j jobs.Status) error {
	switch j.State {
	case jobs.StateDone:
		return nil
	case jobs.StateCanceled:
		return &problem{fmt.Sprintf("job %s was canceled", j.ID), jobs.ErrCanceled}
	}
	return &problem{fmt.Sprintf("job %s is %s", j.ID, j.State), errors.New(j.Error)}
}
