package jobs

import (
	"context"
	"time"
)

// observe calls tell with the Observer, if there is one, on a goroutine that it
// waits for: neither a panic nor runtime.Goexit may take an attempt's outcome along.
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

// start counts an attempt whose handler is called next, and reports it.
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

// end counts how an attempt ended, and reports it.
func (a *attempt) end(e AttemptEnd) {
	a.w.count(e.Kind, e.State)
	e.Start, e.Duration = a.began, a.took
	a.w.observe(func(o Observer) { o.AttemptEnd(context.WithoutCancel(a.seen), a.info(), e) })
}

func (a *attempt) info() AttemptInfo {
	return AttemptInfo{Queue: a.w.queue.name, ID: a.id, Attempt: a.Attempt, Fence: a.fence}
}

// event counts an Event, and reports it.
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
	case EventHandedBack:
		w.stats.HandedBack++
	case EventDropped:
		w.stats.Dropped++
	case EventTrouble:
		w.stats.Trouble++
	}
}
