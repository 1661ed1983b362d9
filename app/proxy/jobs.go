package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/jobs/jobshttp"
	"github.com/weir-go/weir/weirhttp"
)

const (
	// connectTimeout is how long startup waits for the servers that store jobs.
	connectTimeout = 15 * time.Second
	// jobsTimeout bounds the requests to these servers at startup and at a reload.
	jobsTimeout = 10 * time.Second
)

// A jobService runs the jobs of a proxy. The nil jobService has none.
type jobService struct {
	p        *proxy
	path     string // the path prefix of requests about jobs
	logLimit *rate.Limiter

	// backend stores the jobs; nil during an outage. An atomic because each request
	// reads it.
	backend atomic.Pointer[jobBackend]
	// outage is the reason why backend is nil or cannot be used.
	outage outage
	// orphans are the queues that no route serves.
	orphans orphans

	// routes contains the routes with jobs, by name. An atomic because each request
	// reads it; activate replaces it.
	routes atomic.Pointer[map[string]*routeJobs]
}

// A routeJobs turns a route's requests into jobs.
type routeJobs struct {
	route   *jobshttp.Route
	options jobshttp.RouteOptions

	running     *jobshttp.Workers // nil: none; written on Run's goroutine, read under mu by others
	concurrency int
	mu          sync.Mutex
}

// openJobs opens the job backend that s configures. It waits for unreachable servers,
// and returns an error if they stay unreachable. A folder that cannot be opened, for
// whatever reason, is not an error: jobs are refused until it can, and everything else is
// served.
func (p *proxy) openJobs(ctx context.Context, s Settings) (*jobService, error) {
	if s.Jobs == nil {
		return nil, nil
	}
	o := &jobService{p: p, path: s.Jobs.Path, logLimit: rate.NewLimiter(eventsPerSecond, eventsPerSecond)}
	o.routes.Store(&map[string]*routeJobs{})
	if err := o.open(ctx, *s.Jobs); err != nil {
		o.close()
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return o, nil
}

// open opens the backend, or records the outage that prevents it.
func (j *jobService) open(ctx context.Context, a config.JobsAccess) error {
	v, err := j.p.openBackend(ctx, a)
	if err == nil {
		j.backend.Store(v) // the outage ends when the routes accept jobs
		return nil
	}
	if v.server != nil && v.server.Err() != nil {
		err = v.server.Err() // it contains the cause
	}
	v.close(j.p.logger)
	if ctx.Err() != nil || !isOutage(a, j.p.o.Worker, err) {
		return err
	}
	j.outage.begin(j.p.logger, err)
	return nil
}

// durabilityOf returns what an accepted job survives.
func durabilityOf(a config.JobsAccess) jobs.Durability {
	switch {
	case a.Durability != 0:
		return a.Durability
	case a.Dir != "":
		return jobs.DurabilityDisk
	case a.Replicas > 1:
		return jobs.DurabilityMajority
	}
	return jobs.DurabilityProcess
}

// placeOf describes where jobs are stored.
func placeOf(a config.JobsAccess, worker bool) string {
	switch {
	case a.Dir != "" && worker:
		return addressOf(a.Listen)
	case a.Dir != "":
		return a.Dir
	}
	return strings.Join(a.NATS, ", ")
}

// addressOf returns the URL at which a proxy on this machine with that jobs.listen is
// reached.
func addressOf(listen string) string {
	host, port, _ := net.SplitHostPort(listen) // the configuration has been checked
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, port)
}

// connectJobs connects to NATS servers outside the program.
func (p *proxy) connectJobs(ctx context.Context, a config.JobsAccess) (*nats.Conn, error) {
	if a.Dir != "" && a.Listen == "" {
		return nil, &ConfigError{errors.New("jobs.listen is missing: a worker reaches the jobs in jobs.dir only through the proxy that owns the folder")}
	}
	name := "weir proxy"
	if p.o.Worker {
		name = "weir worker"
	}
	options := []nats.Option{
		nats.Name(name), nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond), nats.Timeout(2 * time.Second),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				p.logger.Warn("the job servers are unreachable", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { p.logger.Info("the job servers answer again", "at", c.ConnectedUrlRedacted()) }),
	}
	if a.Token != "" {
		options = append(options, nats.Token(a.Token))
	}
	if a.Username != "" {
		options = append(options, nats.UserInfo(a.Username, a.Password))
	}
	if a.Credentials != "" {
		options = append(options, jobsctl.Credentials(a.Credentials))
	}
	if a.TLS != nil {
		options = append(options, nats.Secure(a.TLS))
	}
	urls := strings.Join(a.NATS, ",")
	if a.Dir != "" {
		urls = addressOf(a.Listen)
	}
	for end := time.Now().Add(connectTimeout); ; {
		nc, err := nats.Connect(urls, options...)
		if err == nil || ctx.Err() != nil || time.Now().After(end) || errors.Is(err, nats.ErrAuthorization) {
			if err != nil {
				err = fmt.Errorf("%w (%s)", err, placeOf(a, p.o.Worker)) // the addresses contain no user
			}
			return nc, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// front implements gateway.Config.Front.
func (j *jobService) front(route string) http.Handler {
	if j.closed() != nil {
		return j.outage.handler(route)
	}
	if d := (*j.routes.Load())[route]; d != nil {
		return d.route
	}
	return nil
}

// with returns the handler for clients: it serves the jobs' own path, and passes other
// requests to next.
func (j *jobService) with(next http.Handler) http.Handler {
	if j == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if j.owns(r) {
			weirhttp.SetReceipt(w, weirhttp.Receipt{Route: "jobs"}) // for the access log
			if v := j.backend.Load(); v != nil && j.closed() == nil {
				v.service.ServeHTTP(w, r)
			} else {
				jobshttp.Refuse(w, r, jobs.ErrUnavailable)
			}
			return
		}
		next.ServeHTTP(w, r)
	})
}

// owns reports whether r is about jobs rather than for a route. A nil jobService owns
// no request.
func (j *jobService) owns(r *http.Request) bool {
	return j != nil && strings.HasPrefix(r.URL.Path, j.path)
}

// configure makes the gateway pass its requests through j.
func (j *jobService) configure(c gateway.Config) gateway.Config {
	if j != nil {
		c.Front = j.front
	}
	return c
}

// next handles a route's requests. If the route has been renamed, its successor handles
// them. A request without any route, for example during the reload that removes the
// route, has not been started and can be retried.
func (j *jobService) next(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if j.p.gateway.ServeRoute(w, r, name) {
			return
		}
		if successor := j.successor(name); successor != "" && j.p.gateway.ServeRoute(w, r, successor) {
			return
		}
		weirhttp.SetReceipt(w, weirhttp.Receipt{Route: name, Outcome: weirhttp.OutcomeRefused, Err: weir.ErrClosed})
		weirhttp.Error(w, r, weir.ErrClosed)
	})
}

// prepare creates the routeJobs of s, and reuses those that have not changed. New ones
// have no workers until activate.
func (j *jobService) prepare(ctx context.Context, s Settings) (map[string]*routeJobs, error) {
	if j == nil {
		return nil, nil
	}
	j.outage.routes(s.Jobs.Routes, j.next)
	v := j.backend.Load()
	if v == nil {
		return map[string]*routeJobs{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, jobsTimeout)
	defer cancel()
	was, now := *j.routes.Load(), map[string]*routeJobs{}
	for _, name := range slices.Sorted(maps.Keys(s.Jobs.Routes)) {
		options := s.Jobs.Routes[name]
		if d := was[name]; d != nil && reflect.DeepEqual(d.options, options) {
			now[name] = d
			continue
		}
		route, err := v.service.Route(ctx, name, j.next(name), options)
		if why := v.unusable(err); why != nil && len(was) == 0 {
			j.suspend(why)
			return map[string]*routeJobs{}, nil
		}
		if err != nil {
			j.keep(was)
			return nil, fmt.Errorf("jobs: %w", err)
		}
		now[name] = &routeJobs{route: route, options: options}
	}
	return now, nil
}

// all returns the current routes with jobs.
func (j *jobService) all() map[string]*routeJobs {
	if j == nil {
		return nil
	}
	return *j.routes.Load()
}

// keep limits the service to these routes.
func (j *jobService) keep(routes map[string]*routeJobs) {
	if j == nil || j.backend.Load() == nil {
		return
	}
	var kept []*jobshttp.Route
	for _, d := range routes {
		kept = append(kept, d.route)
	}
	j.backend.Load().service.Keep(kept...)
}

// activate starts the workers of routes. Workers of all other routes stop once they
// have finished their jobs. If workers cannot be started, the old ones keep running.
func (j *jobService) activate(s Settings, routes map[string]*routeJobs) error {
	if j == nil {
		return nil
	}
	was := *j.routes.Load()
	j.keep(routes)
	j.routes.Store(&routes)
	j.orphans.serve(s.Jobs.Routes)
	if j.backend.Load() != nil {
		j.outage.end()
	}
	concurrency := 0
	if s.Jobs.Workers || j.p.o.Worker {
		concurrency = s.Jobs.Concurrency
	}
	var errs []error
	for name, d := range routes {
		old := was[name]
		if old == d && d.concurrency == concurrency {
			continue
		}
		retired := old.workers()
		if concurrency > 0 {
			workers, err := d.route.Work(jobs.WorkerOptions{Concurrency: concurrency, Observer: jobsLog{j: j}})
			if err != nil {
				errs = append(errs, fmt.Errorf("jobs: route %s: %w", name, err))
				d.setWorkers(retired, -1) // the next reload tries again
				continue
			}
			d.setWorkers(workers, concurrency)
		} else {
			d.setWorkers(nil, 0)
		}
		j.retire(retired)
	}
	for name, d := range was {
		if routes[name] == nil {
			j.retire(d.workers())
		}
	}
	j.warnOrphans()
	return errors.Join(errs...)
}

// workers returns the workers of the route, nil for none.
func (r *routeJobs) workers() *jobshttp.Workers {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

func (r *routeJobs) setWorkers(w *jobshttp.Workers, concurrency int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running, r.concurrency = w, concurrency
}

// retire stops workers in the background. They have until the end of the drain.
func (j *jobService) retire(w *jobshttp.Workers) {
	if w != nil {
		j.p.retired.Go(func() { _ = w.Close(j.p.drainCtx) }) // unfinished jobs are handed back
	}
}

// drain ends all waits for jobs and starts no new jobs.
func (j *jobService) drain() {
	if j == nil || j.backend.Load() == nil {
		return
	}
	_ = j.backend.Load().service.Drain(context.Background()) // nil
	for _, d := range *j.routes.Load() {
		j.retire(d.workers())
	}
}

// close closes the backend. The workers have stopped, or stop at once.
func (j *jobService) close() {
	if j == nil {
		return
	}
	j.outage.end()
	if v := j.backend.Load(); v != nil {
		j.drain()
		j.p.retired.Wait()
		v.close(j.p.logger)
	}
}

// jobsStore returns the current Store, nil for none.
func (j *jobService) jobsStore() *jobs.Store {
	if j == nil || j.backend.Load() == nil {
		return nil
	}
	return j.backend.Load().store
}

// fixedJobs returns the part of the section jobs that needs a restart, as text. It
// contains the names of files; fixFiles adds their contents.
func fixedJobs(j *config.Jobs) string {
	if j == nil {
		return ""
	}
	fixed := *j
	fixed.Workers, fixed.Concurrency = false, 0
	text, err := json.Marshal(fixed)
	if err != nil {
		return err.Error() // nothing in it can fail to marshal
	}
	return string(text)
}

// keepJobs puts the current jobs into a new configuration: a reload can only change the
// routes, whether there are workers, and their concurrency.
func (p *proxy) keepJobs(s *Settings) {
	was, wanted := p.settings.Jobs, s.Jobs
	s.Jobs = nil
	if was == nil {
		return
	}
	now := *was
	now.Routes, now.Workers = nil, false
	if wanted != nil {
		now.Routes, now.Workers, now.Concurrency = wanted.Routes, wanted.Workers, wanted.Concurrency
	}
	s.Jobs = &now
}
