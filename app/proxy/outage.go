package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/embedded"
	"github.com/weir-go/weir/jobs/jobshttp"
)

// An outage is why jobs are refused, while all else is served. The zero outage is
// none.
type outage struct {
	why atomic.Pointer[error]
	// closed answer the routes' requests meanwhile. An atomic, as each request reads
	// it.
	closed atomic.Pointer[map[string]http.Handler]

	mu    sync.Mutex
	again *time.Ticker // guarded by mu; nil: what has to be done is an operator's
}

// outageRetry is how often a folder is tried again that could not be used.
const outageRetry = 5 * time.Second

// isOutage reports whether a start that failed with err is to go on without jobs.
func isOutage(err error) bool {
	_, damaged := errors.AsType[*embedded.DamageError](err)
	_, store := errors.AsType[*embedded.StoreError](err)
	return damaged || store || errors.Is(err, embedded.ErrNewer)
}

// begin notes an outage. What may be over by itself is tried again, but files are
// not read again and again that nobody has mended.
func (u *outage) begin(l *slog.Logger, why error) {
	if was := u.why.Swap(&why); was == nil || (*was).Error() != why.Error() {
		l.Error("jobs are refused, all else is served", "error", why)
	}
	_, store := errors.AsType[*embedded.StoreError](why)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.again != nil && !store {
		u.again.Stop()
		u.again = nil
	} else if u.again == nil && store {
		u.again = time.NewTicker(outageRetry)
	}
}

// end ends it.
func (u *outage) end() {
	u.why.Store(nil)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.again != nil {
		u.again.Stop()
		u.again = nil
	}
}

// routes are those whose requests would become jobs.
func (u *outage) routes(all map[string]jobshttp.RouteOptions, next func(string) http.Handler) {
	closed := map[string]http.Handler{}
	for name, o := range all {
		closed[name] = jobshttp.Closed(next(name), o, jobs.ErrUnavailable)
	}
	u.closed.Store(&closed)
}

// handler answers a route's requests; nil if none of them would become a job.
func (u *outage) handler(route string) http.Handler {
	if all := u.closed.Load(); all != nil {
		return (*all)[route]
	}
	return nil
}

// closed returns why no job can be accepted or asked for, or nil.
func (j *jobService) closed() error {
	if why := j.outage.why.Load(); why != nil {
		return *why
	}
	v := j.backend.Load()
	if v == nil || v.server == nil {
		return nil
	}
	err := v.server.Err()
	if _, damaged := errors.AsType[*embedded.DamageError](err); damaged || errors.Is(err, embedded.ErrVanished) {
		return err
	}
	return nil
}

// ready returns what is wrong with the jobs, or nil, from any goroutine.
func (j *jobService) ready() error {
	if j == nil {
		return nil
	}
	err := j.closed()
	if v := j.backend.Load(); err == nil && v != nil && v.server != nil {
		err = v.server.Err()
	}
	if err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	return nil
}

// suspend closes the backend for an outage.
func (j *jobService) suspend(why error) {
	v := j.backend.Swap(nil)
	j.outage.begin(j.p.logger, why)
	v.close(j.p.logger)
}

// retry is when the jobs are to be tried again; nil: never.
func (j *jobService) retry() <-chan time.Time {
	if j == nil {
		return nil
	}
	j.outage.mu.Lock()
	defer j.outage.mu.Unlock()
	if j.outage.again == nil {
		return nil
	}
	return j.outage.again.C
}

// reopen tries to end an outage, for a reload too.
func (j *jobService) reopen(ctx context.Context, a config.JobsAccess) {
	if j == nil || j.closed() == nil {
		return
	}
	why := j.closed()
	if v := j.backend.Load(); v != nil {
		routes := *j.routes.Load()
		j.routes.Store(&map[string]*routeJobs{})
		j.outage.begin(j.p.logger, why)
		for _, d := range routes {
			if w := d.workers(); w != nil {
				j.p.retired.Go(func() { _ = w.Close(done) }) // there is nothing that it could finish
			}
		}
		j.backend.Store(nil)
		_ = v.service.Drain(context.Background()) // nil
		v.close(j.p.logger)
	}
	if err := j.open(ctx, a); err != nil {
		j.outage.begin(j.p.logger, err)
	}
}

// done is a context that has ended.
var done = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// reopenJobs tries to end an outage between reloads.
func (p *proxy) reopenJobs() {
	p.jobs.reopen(p.base, *p.settings.Jobs)
	if p.jobs.backend.Load() == nil {
		return
	}
	routes, err := p.jobs.prepare(p.base, p.settings)
	if err == nil {
		err = p.jobs.activate(p.settings, routes)
	}
	p.admin.set(p.adminUI.handler(p.settings))
	if err != nil {
		p.logger.Error("the jobs could not be opened again", "error", err)
	} else if p.jobs.closed() == nil {
		p.logger.Info("jobs are accepted again")
	}
}

// Queues is of show.Keeper: during an outage nothing is known of them. It also looks
// which of them belong to no route.
func (j *jobService) Queues(ctx context.Context) ([]jobs.QueueStatus, error) {
	store := j.jobsStore()
	if store == nil {
		return nil, errors.Join(j.ready(), jobs.ErrUnavailable)
	}
	all, err := store.Queues(ctx)
	if err == nil {
		_, _ = j.orphans.scan(ctx, store, all, orphanAge) // the queues are known all the same
	}
	return all, err
}

// jobsFailure is what operators get who ask for jobs during an outage.
func (j *jobService) jobsFailure() *jobsctl.Failure {
	if j == nil {
		return nil
	}
	if err := j.ready(); err != nil && j.jobsStore() == nil {
		return &jobsctl.Failure{Error: err.Error(), Reason: jobsctl.Unavailable}
	}
	return nil
}
