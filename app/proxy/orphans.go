package proxy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// orphans are the queues that have jobs and no route, such as those of a route that
// was renamed. The zero orphans are none.
type orphans struct {
	// served are the names whose jobs the configuration's routes have. An atomic, as
	// each scan reads it; nil before the first activate.
	served atomic.Pointer[map[string]bool]
	// found are those of the last scan, by queue. An atomic, as the console reads it.
	found atomic.Pointer[map[string]orphan]
}

// An orphan is a queue that no route serves.
type orphan struct {
	jobs.Count
	at time.Time // of the count
}

// orphanAge is for how long a count is good for the console: a queue may be long.
const orphanAge = time.Minute

// serve says which routes there are.
func (o *orphans) serve(routes map[string]jobshttp.RouteOptions) {
	served := map[string]bool{}
	for name, r := range routes {
		served[name] = true
		for _, name := range r.Formerly {
			served[name] = true
		}
	}
	o.served.Store(&served)
}

// scan finds the orphans among all queues, with counts that are not older than age. A
// queue that cannot be a route's is a program's own.
func (o *orphans) scan(ctx context.Context, store *jobs.Store, all []jobs.QueueStatus, age time.Duration) (map[string]orphan, error) {
	served := o.served.Load()
	if served == nil {
		return nil, nil
	}
	known, found := o.last(), map[string]orphan{}
	for _, q := range all {
		name := jobshttp.NameOf(q.Queue)
		if (*served)[name] || !jobshttp.ValidName(name) {
			continue
		}
		one, ok := known[q.Queue]
		if !ok || time.Since(one.at) > age {
			count, err := store.Count(ctx, q.Queue)
			if err != nil {
				return nil, err
			}
			one = orphan{count, time.Now()}
		}
		found[q.Queue] = one
	}
	o.found.Store(&found)
	return found, nil
}

// last are those of the last scan.
func (o *orphans) last() map[string]orphan {
	if found := o.found.Load(); found != nil {
		return *found
	}
	return nil
}

// orphanCount returns the count of a queue that has jobs and no route, from any goroutine; nil
// for another queue.
func (j *jobService) orphanCount(queue string) *jobs.Count {
	if one := j.orphans.last()[queue]; one.Count != (jobs.Count{}) {
		return &one.Count
	}
	return nil
}

// warnOrphans has the log name the queues that have jobs and no route, once they are
// known.
func (j *jobService) warnOrphans() {
	store := j.jobsStore()
	if store == nil {
		return
	}
	j.p.retired.Go(func() {
		ctx, cancel := context.WithTimeout(j.p.drainCtx, jobsTimeout)
		defer cancel()
		var found map[string]orphan
		all, err := store.Queues(ctx)
		if err == nil {
			found, err = j.orphans.scan(ctx, store, all, 0)
		}
		if err != nil && j.p.drainCtx.Err() == nil && j.closed() == nil {
			j.p.logger.Warn("it is not known whether there are jobs that no route has", "error", err)
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if c := found[name].Count; c != (jobs.Count{}) {
				j.p.logger.Warn("no route has these jobs: they do not run, and clients get 404 for them", "queue", name,
					"queued", c.Queued, "started", c.Started, "dead", c.Dead, "finished", c.Finished, "setting", adoptSetting(name))
			}
		}
	})
}

// adoptSetting is the setting by which a route takes over a queue.
func adoptSetting(queue string) string {
	return fmt.Sprintf("async: {formerly: [%s]}", jobshttp.NameOf(queue))
}

// successor is the route that took over the jobs of a removed route; "" if none did.
func (j *jobService) successor(name string) string {
	for successor, d := range *j.routes.Load() {
		if slices.Contains(d.options.Formerly, name) {
			return successor
		}
	}
	return ""
}
