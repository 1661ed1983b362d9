package load

import (
	"context"
	"time"
)

// A sleeper is a pacer that uses the runtime's timers.
type sleeper struct{ ctx context.Context }

func newSleeper(ctx context.Context) (pacer, error) { return sleeper{ctx}, nil }

func (s sleeper) Wait(t time.Time) {
	d := time.Until(t)
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.ctx.Done():
	}
}

func (sleeper) Close() error { return nil }
