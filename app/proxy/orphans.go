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

// orphans are the queues that contain jobs but have no route, such as the queue of a
// route that was renamed. The zero value contains none.
type orphans struct {
	// served contains the names whose jobs belong to a configured route. An atomic
	// because each scan reads it; nil before the first activate.
	served atomic.Pointer[map[string]bool]
	// found contains the orphans of the last scan, by queue. An atomic because the
	// console reads it.
	found atomic.Pointer[map[string]orphan]
}

// An orphan is a queue that no route serves.
type orphan struct {
	jobs.Count
	at time.Time // when the jobs were counted
}

// orphanAge is how long the console uses a count: counting a long queue takes time.
const orphanAge = time.Minute

// serve sets the routes that exist.
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

// scan finds the orphans among all queues. Their counts are no older than age. A queue
// whose name is not a valid route name belongs to some other program and is skipped.
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

// last returns the orphans of the last scan.
func (o *orphans) last() map[string]orphan {
	if found := o.found.Load(); found != nil {
		return *found
	}
	return nil
}

// orphanCount returns the job count of a queue without a route, and nil for any other
// queue. It is called from any goroutine.
func (j *jobService) orphanCount(queue string) *jobs.Count {
	if one := j.orphans.last()[queue]; one.Count != (jobs.Count{}) {
		return &one.Count
	}
	return nil
}

// warnOrphans finds the queues that have jobs but no route, in the background, and logs
// them.
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
			j.p.logger.Warn("cannot check for jobs without a route", "error", err)
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			if c := found[name].Count; c != (jobs.Count{}) {
				j.p.logger.Warn("no route has these jobs: they do not run, and clients get 404 for them", "queue", name,
					"queued", c.Queued, "started", c.Started, "dead", c.Dead, "finished", c.Finished, "setting", adoptSetting(name))
			}
		}
	})
}

// adoptSetting returns the setting with which a route takes over a queue.
func adoptSetting(queue string) string {
	return fmt.Sprintf("async: {formerly: [%s]}", jobshttp.NameOf(queue))
}

// successor returns the route that took over the jobs of a removed route, or "".
func (j *jobService) successor(name string) string {
	for successor, d := range *j.routes.Load() {
		if slices.Contains(d.options.Formerly, name) {
			return successor
		}
	}
	return ""
}
