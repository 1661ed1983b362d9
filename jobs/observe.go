package jobs

import (
	"context"
	"time"
)

// observe calls tell with the Observer, if there is one. It does so on a separate
// goroutine and waits for it, so that neither a panic nor runtime.Goexit loses an
// attempt's outcome.
func (w *Worker) observe(tell func(Observer)) {
	if w.o.Observer == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		tell(w.o.Observer)
	}()
	<-done
}

// start counts and reports an attempt; its handler is called next.
func (a *attempt) start(ctx context.Context) {
	a.w.mu.Lock()
	a.w.stats.Started++
	a.w.mu.Unlock()
	a.seen = ctx
	a.w.observe(func(o Observer) {
		if own := o.AttemptStart(ctx, a.info()); own != nil {
			a.seen = own
		}
	})
	a.began = time.Now()
}

// end counts and reports the end of an attempt.
func (a *attempt) end(e AttemptEnd) {
	a.w.count(e.Kind, e.State)
	e.Start, e.Duration = a.began, a.took
	a.w.observe(func(o Observer) { o.AttemptEnd(context.WithoutCancel(a.seen), a.info(), e) })
}

func (a *attempt) info() AttemptInfo {
	return AttemptInfo{Queue: a.w.queue.name, ID: a.id, Attempt: a.Attempt, Fence: a.fence}
}

// event counts and reports an Event.
func (w *Worker) event(ctx context.Context, e Event) {
	w.count(e.Kind, e.State)
	e.Queue = w.queue.name
	w.observe(func(o Observer) { o.Event(ctx, e) })
}

func (w *Worker) count(k EventKind, s State) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch k {
	case EventSucceeded:
		w.stats.Succeeded++
	case EventRetried:
		w.stats.Retried++
	case EventEnded:
		w.stats.Ended++
		if s == StateDead {
			w.stats.Dead++
		} else {
			w.stats.Failed++
		}
	case EventSnoozed:
		w.stats.Snoozed++
	case EventHandedBack:
		w.stats.HandedBack++
	case EventDropped:
		w.stats.Dropped++
	case EventTrouble:
		w.stats.Trouble++
	}
}
