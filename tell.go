package weir

import (
	"context"
	"time"
)

// clock returns the time if there is an Observer, and otherwise the zero Time.
func (r *run[K, V]) clock() time.Time {
	if r.g.o.Observer == nil {
		return time.Time{}
	}
	return time.Now()
}

func (r *run[K, V]) info() LoadInfo {
	flights := r.l.Flights()
	return LoadInfo{Guard: r.g.o.Name, Key: flights[0].Key, Keys: len(flights), Background: r.l.Background()}
}

// observeStart reports the load's start and takes the context that the Observer
// returns.
func (r *run[K, V]) observeStart() {
	g := r.g
	if g.o.Observer == nil {
		return
	}
	r.start = time.Now()
	g.observe(func(o Observer) {
		if ctx := o.LoadStart(r.l, r.info()); ctx != nil {
			r.ctx = ctx
		}
	})
	g.flights.Lock()
	r.l.Observed = r.ctx
	g.flights.Unlock()
}

// tell reports the load's end. counts means that the load was not given up
// before. Each report is deferred, because the one before it may exit; commit
// has counted the load, so that Close waits until they have returned.
func (r *run[K, V]) tell(counts bool) {
	g := r.g
	if g.o.Observer == nil {
		return
	}
	defer func() {
		g.flights.Lock()
		defer g.flights.Unlock()
		g.telling--
		g.idleLocked()
	}()
	if len(r.l.Flights()) == 0 { // each has moved to another load
		return
	}
	key := r.l.Flights()[0].Key
	if r.ctx != nil {
		end := r.loadEnd(!counts)
		if end.Err == nil && r.of(0).heavy {
			defer g.event(r.l, EventTooHeavy, key, nil)
		}
		defer g.observe(func(o Observer) { o.LoadEnd(context.WithoutCancel(r.ctx), r.info(), end) })
	}
	if !counts && context.Cause(r.l) == ErrAbandoned {
		g.event(r.l, EventAbandoned, key, ErrAbandoned)
	}
}

// loadEnd returns what the Observer gets at the load's end.
func (r *run[K, V]) loadEnd(late bool) LoadEnd {
	end := LoadEnd{Start: r.start, Duration: time.Since(r.start), Queued: r.queued, Err: r.err, Class: r.class, Late: late}
	for i := range r.l.Flights() { // a bulk load reports its first error
		if end.Err != nil {
			break
		}
		if a := r.of(i); a.err != nil {
			end.Err, end.Class = a.err, a.class
		} else if a.entry.kind == kindNegative && r.many == nil {
			end.Err, end.Class = a.entry.extra.err, ClassNotFound
		}
	}
	return end
}
