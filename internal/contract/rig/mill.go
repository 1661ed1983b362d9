package rig

import (
	"context"
	"sync/atomic"
	"time"
)

// A Mill is a source whose behavior a story changes as it goes: each load uses
// the fields as they are when it begins. Its nth load returns n.
type Mill struct {
	Takes time.Duration
	Deaf  bool  // ignores its context
	Err   error // the error with which it ends
	Runs  atomic.Int64
}

func (m *Mill) Load(ctx context.Context, _ string) (int, error) {
	n, err := int(m.Runs.Add(1)), m.Err
	var hung <-chan struct{}
	if !m.Deaf {
		hung = ctx.Done()
	}
	timer := time.NewTimer(m.Takes)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hung:
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}
