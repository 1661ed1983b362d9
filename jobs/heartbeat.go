package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// began notes an attempt for cancels.
func (w *Worker) began(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempts[a.id] = a
}

func (w *Worker) ended(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.attempts[a.id] == a {
		delete(w.attempts, a.id)
	}
}

// beat renews the lease every third of it, and looks whether the job is still
// this attempt's, until stop is called. A lease that could not be renewed for
// its whole length is lost. Nothing runs before the first third has passed, so
// that quick jobs do not pay for it.
func (a *attempt) beat() (stop func()) {
	lease := a.w.queue.o.Lease
	ctx, cancel := context.WithCancel(a.w.hurry)
	done := make(chan struct{})
	renewed := time.Now()
	t := time.AfterFunc(lease/3, func() {
		defer close(done)
		for {
			began := time.Now()
			switch ours, err := a.ours(ctx, renewed.Add(lease)); {
			case err == nil && !ours:
				return
			case err == nil:
				a.m.InProgress()
				renewed = began
			case time.Since(renewed) >= lease:
				a.cancel(ErrLeaseLost)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(lease / 3):
			}
		}
	})
	return func() {
		cancel()
		if !t.Stop() {
			<-done
		}
	}
}

// ours reports whether the job is still marked as running with this attempt, and
// ends it if not. It asks until a time.
func (a *attempt) ours(ctx context.Context, until time.Time) (bool, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	m, err := a.w.queue.store.journal.ReadKind(ctx, a.w.queue.name, a.id, journal.State)
	if err != nil {
		return false, err
	}
	if m == nil {
		a.cancel(ErrLeaseLost)
		return false, nil
	}
	l, _, err := read(journal.View{State: m})
	switch {
	case err != nil:
		return false, err
	case l.State == Running && l.Fence == a.fence:
		return true, nil
	case l.State == Cancelled:
		a.cancel(ErrCancelled)
	default:
		a.cancel(ErrLeaseLost)
	}
	return false, nil
}

// report keeps p for Status, now or when MinProgress has passed.
func (a *attempt) report(p Progress) {
	p.Note = clip(p.Note)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = &p
	if a.over || a.timer != nil {
		return
	}
	a.timer = time.AfterFunc(max(0, MinProgress-time.Since(a.wrote)), a.writeProgress)
}

func (a *attempt) writeProgress() {
	a.mu.Lock()
	if a.over { // the record is changed without the lock from then on
		a.mu.Unlock()
		return
	}
	r := a.record
	r.Progress = a.progress
	a.mu.Unlock()
	err := a.put(r, nil, underWayTTL)
	if errors.Is(err, journal.ErrStale) {
		a.ours(a.w.hurry, time.Now().Add(a.w.queue.o.Lease)) // says why
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrote, a.timer = time.Now(), nil
	if a.progress != r.Progress && !a.over {
		a.timer = time.AfterFunc(MinProgress, a.writeProgress)
	}
}

// quiet ends the reports; the last one goes with the outcome.
func (a *attempt) quiet() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.timer != nil {
		a.timer.Stop()
	}
	if a.progress != nil {
		a.Progress = a.progress
	}
}
