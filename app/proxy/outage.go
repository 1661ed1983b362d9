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

// An outage makes the proxy refuse jobs while it serves everything else. The zero value
// is no outage.
type outage struct {
	why atomic.Pointer[error]
	// closed handles the routes' requests during the outage. An atomic because each
	// request reads it.
	closed atomic.Pointer[map[string]http.Handler]

	mu    sync.Mutex
	again *time.Ticker // guarded by mu; nil: an operator has to act
}

// outageRetry is how often the proxy retries a folder that could not be used.
const outageRetry = 5 * time.Second

// isOutage reports whether the program starts without jobs after err: whatever keeps the
// folder of its jobs from being opened. Only a configuration that cannot be used, and
// servers elsewhere, are errors of the start.
func isOutage(a config.JobsAccess, worker bool, err error) bool {
	_, bad := errors.AsType[*ConfigError](err)
	return a.Dir != "" && !worker && !bad
}

// isFinal reports whether an outage ends only after an operator has done something.
func isFinal(err error) bool {
	_, damaged := errors.AsType[*embedded.DamageError](err)
	_, lost := errors.AsType[*embedded.RecoveryError](err)
	return damaged || lost || errors.Is(err, embedded.ErrNewer) || errors.Is(err, embedded.ErrVanished)
}

// begin records an outage. An outage that can end without an operator is retried;
// damaged files are not, because they would be read over and over for nothing.
func (u *outage) begin(l *slog.Logger, why error) {
	if was := u.why.Swap(&why); was == nil || (*was).Error() != why.Error() {
		l.Error("opening the job store failed; jobs are refused and everything else is served", "error", why)
	}
	again := !isFinal(why)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.again != nil && !again {
		u.again.Stop()
		u.again = nil
	} else if u.again == nil && again {
		u.again = time.NewTicker(outageRetry)
	}
}

// end ends the outage.
func (u *outage) end() {
	u.why.Store(nil)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.again != nil {
		u.again.Stop()
		u.again = nil
	}
}

// routes sets the routes whose requests would become jobs.
func (u *outage) routes(all map[string]jobshttp.RouteOptions, next func(string) http.Handler) {
	closed := map[string]http.Handler{}
	for name, o := range all {
		closed[name] = jobshttp.Closed(next(name), o, jobs.ErrUnavailable)
	}
	u.closed.Store(&closed)
}

// handler returns the handler for a route's requests; nil if none of them would become
// a job.
func (u *outage) handler(route string) http.Handler {
	if all := u.closed.Load(); all != nil {
		return (*all)[route]
	}
	return nil
}

// closed returns why jobs can be neither accepted nor queried, or nil. While only new jobs
// are refused, for example because the disk is full, the Store refuses them.
func (j *jobService) closed() error {
	if why := j.outage.why.Load(); why != nil {
		return *why
	}
	v := j.backend.Load()
	if v == nil || v.server == nil {
		return nil
	}
	return v.server.Down()
}

// ready returns what is wrong with the jobs, or nil. It is called from any goroutine.
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

// suspend closes the backend because of an outage.
func (j *jobService) suspend(why error) {
	v := j.backend.Swap(nil)
	j.outage.begin(j.p.logger, why)
	v.close(j.p.logger)
}

// retry fires when the jobs should be tried again; nil means never.
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

// reopen tries to end an outage. A reload calls it, too.
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
				j.p.retired.Go(func() { _ = w.Close(done) }) // it could not finish anything
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
		p.logger.Error("jobs could not be reopened", "error", err)
	} else if p.jobs.closed() == nil {
		p.logger.Info("jobs are accepted again")
	}
}

// Queues implements show.Keeper. During an outage the queues are unknown. Queues also
// finds those without a route.
func (j *jobService) Queues(ctx context.Context) ([]jobs.QueueStatus, error) {
	store := j.jobsStore()
	if store == nil {
		return nil, errors.Join(j.ready(), jobs.ErrUnavailable)
	}
	all, err := store.Queues(ctx)
	if err == nil {
		_, _ = j.orphans.scan(ctx, store, all, orphanAge) // its error does not concern the queues themselves
	}
	return all, err
}

// jobsFailure returns the error for operators' requests about jobs during an outage, or
// nil.
func (j *jobService) jobsFailure() *jobsctl.Failure {
	if j == nil {
		return nil
	}
	if err := j.ready(); err != nil && j.jobsStore() == nil {
		return &jobsctl.Failure{Error: err.Error(), Reason: jobsctl.Unavailable}
	}
	return nil
}
