package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// began registers an attempt, so that it can be canceled.
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

// beat renews the lease at intervals of a third of it, until stop is called. If no
// renewal has succeeded for a whole lease, the lease is lost. Nothing runs before the
// first third has passed, so that short jobs do not pay for it.
func (a *attempt) beat() (stop func()) {
	ctx, cancel := context.WithCancel(a.w.hurry)
	done := make(chan struct{})
	third := a.w.queue.o.Lease / 3
	t := time.AfterFunc(third, func() {
		defer close(done)
		for a.renew(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(third):
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

// renew is one heartbeat. It reports whether to send another.
//
// It rewrites the running marker, so that the marker's age is the time since the last
// heartbeat. It would not be enough to keep the item, because any worker that ever
// received it can hand it back late:
//
//	A: receives the item, and is paused
//	B: receives the item after the lease, starts an attempt, and keeps the item
//	A: resumes, and hands the item back
//	C: receives the item, finds B's marker, and decides by the marker's age
func (a *attempt) renew(ctx context.Context) bool {
	lease := a.w.queue.o.Lease
	began := time.Now()
	err := a.writeMarker(ctx, a.renewed.Add(lease))
	if errors.Is(err, journal.ErrStale) || errors.Is(err, journal.ErrFull) {
		// The job is no longer this attempt's, or the server is full for now.
		ours, err2 := a.ours(ctx, a.renewed.Add(lease))
		if err2 == nil && !ours {
			return false
		}
		err = err2
	}
	switch {
	case err == nil:
		a.m.InProgress()
		a.renewed = began
	case ctx.Err() != nil:
		return false
	case time.Since(a.renewed) >= lease:
		a.cancel(ErrLeaseLost)
		return false
	}
	return true
}

// writeMarker rewrites the running marker, with until as its deadline. Once the
// outcome is written, or may be, it does nothing.
func (a *attempt) writeMarker(ctx context.Context, until time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	a.turn.Lock()
	defer a.turn.Unlock()
	if a.settled {
		return nil
	}
	r := a.marker
	r.Shown = a.shown
	// Mine, as for the first marker: it matters only as long as this process lives.
	_, err := a.putLocked(ctx, journal.Write{Meta: meta(r), TTL: underWayTTL, Mine: true}, StateRunning)
	return err
}

// putNews writes the running marker with a report and the log, if there are any. Once
// the outcome is written, or may be, it does nothing.
func (a *attempt) putNews(p *Progress, lines []LogLine, logged int) error {
	a.turn.Lock()
	defer a.turn.Unlock()
	if a.settled {
		return nil
	}
	a.marker.Progress = p
	if logged > 0 {
		a.marker.Log, a.marker.Logged = lines, logged
	}
	seq, err := a.putLocked(context.Background(), journal.Write{Meta: meta(a.marker), TTL: underWayTTL}, StateRunning)
	if err == nil {
		a.shown = seq
	}
	return err
}

// confirm reports whether the job still belongs to this attempt, before its handler
// is called. It reads the job only if the marker was written long ago: if the process
// was paused since then, another attempt may have taken the job.
func (a *attempt) confirm(ctx context.Context) bool {
	lease := a.w.queue.o.Lease
	if time.Since(a.renewed) < lease/3 {
		return true
	}
	began := time.Now()
	ours, err := a.ours(ctx, began.Add(lease))
	switch {
	case err != nil:
		a.cancel(ErrLeaseLost)
		return false
	case ours:
		a.renewed = began
	}
	return ours
}

// ours reports whether the job is still marked as running with this attempt, and ends
// the attempt if not. It retries until the given time.
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
	case l.State == StateRunning && l.Fence == a.fence:
		return true, nil
	case l.State == StateCanceled:
		a.cancel(ErrCanceled)
	default:
		a.cancel(ErrLeaseLost)
	}
	return false, nil
}

// report keeps p for Status, and writes it now or when MinProgress has passed.
func (a *attempt) report(p Progress) {
	p.Note = clip(p.Note)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress = &p
	switch {
	case a.over:
		return
	case a.reported != nil:
		a.reported(p)
		return
	}
	a.newsLocked()
}

// newsLocked makes sure that the latest report and the log are written. a.mu must be
// held.
func (a *attempt) newsLocked() {
	a.news++
	if a.timer == nil && a.reported == nil {
		a.timer = time.AfterFunc(max(0, MinProgress-time.Since(a.wrote)), a.writeNews)
	}
}

func (a *attempt) writeNews() {
	a.mu.Lock()
	if a.over { // from here on the record changes without the lock
		a.mu.Unlock()
		return
	}
	p, lines, logged, news := a.progress, a.lines, a.logged, a.news
	a.mu.Unlock()
	err := a.putNews(p, lines, logged)
	if errors.Is(err, journal.ErrStale) {
		a.ours(a.w.hurry, time.Now().Add(a.w.queue.o.Lease)) // ends the attempt with the cause
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrote, a.timer = time.Now(), nil
	if a.news != news && !a.over {
		a.timer = time.AfterFunc(MinProgress, a.writeNews)
	}
}

// quiet ends the reports and the log; the outcome includes the latest report and the log.
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
	if a.logged > 0 {
		a.Log, a.Logged = a.lines, a.logged
	}
}
