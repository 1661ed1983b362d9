package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	// reachPatience is how long a start waits for the servers that keep jobs.
	reachPatience = 15 * time.Second
	// jobsPatience bounds what is asked of them at a start and a reload.
	jobsPatience = 10 * time.Second
)

// An office is the proxy's part in jobs. The nil office has none.
type office struct {
	p       *proxy
	path    string // under which clients ask for jobs
	trouble *rate.Limiter

	// vault is what jobs are kept with, nil during an outage. An atomic, as each
	// request reads it.
	vault atomic.Pointer[vault]
	// outage is why there is none.
	outage outage
	// orphans are the queues that belong to no route.
	orphans orphans

	// desks are those of the routes by name. An atomic, as each request reads
	// it; it is replaced by commit.
	desks atomic.Pointer[map[string]*desk]
}

// A desk makes jobs of a route's requests.
type desk struct {
	route   *jobshttp.Route
	options jobshttp.RouteOptions

	workers     *jobshttp.Workers // nil: none; of the goroutine of Run, and read under mu by others
	concurrency int
	mu          sync.Mutex
}

// openOffice opens what s says about jobs. Servers that cannot be reached are
// waited for, and then an error. A folder that cannot be used is none: the routes
// without jobs serve meanwhile.
func (p *proxy) openOffice(ctx context.Context, s Settings) (*office, error) {
	if s.Jobs == nil {
		return nil, nil
	}
	o := &office{p: p, path: s.Jobs.Path, trouble: rate.NewLimiter(eventsPerSecond, eventsPerSecond)}
	o.desks.Store(&map[string]*desk{})
	if err := o.open(ctx, *s.Jobs); err != nil {
		o.close()
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return o, nil
}

// open opens the vault, or notes the outage that keeps it closed.
func (o *office) open(ctx context.Context, a config.JobsAccess) error {
	v, err := o.p.openVault(ctx, a)
	if err == nil {
		o.vault.Store(v) // an outage ends when the routes have their desks
		return nil
	}
	if v.server != nil && v.server.Err() != nil {
		err = v.server.Err() // it names the cause
	}
	v.close(o.p.logger)
	if !isOutage(err) {
		return err
	}
	o.outage.begin(o.p.logger, err)
	return nil
}

// durabilityOf is what an accepted job survives.
func durabilityOf(a config.JobsAccess) jobs.Durability {
	switch {
	case a.Durability != 0:
		return a.Durability
	case a.Dir != "":
		return jobs.Disk
	case a.Replicas > 1:
		return jobs.Majority
	}
	return jobs.Process
}

// placeOf says where jobs are kept.
func placeOf(a config.JobsAccess, worker bool) string {
	switch {
	case a.Dir != "" && worker:
		return addressOf(a.Listen)
	case a.Dir != "":
		return a.Dir
	}
	return strings.Join(a.NATS, ", ")
}

// addressOf is where a proxy on this machine that listens there is reached.
func addressOf(listen string) string {
	host, port, _ := net.SplitHostPort(listen) // checked
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, port)
}

// reach connects to servers outside the program.
func (p *proxy) reach(ctx context.Context, a config.JobsAccess) (*nats.Conn, error) {
	if a.Dir != "" && a.Listen == "" {
		return nil, &ConfigError{errors.New("jobs.listen is missing: jobs in jobs.dir can be reached only where the proxy that has the folder listens")}
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
				p.logger.Warn("the servers that keep the jobs are out of reach", "error", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) { p.logger.Info("the jobs can be reached again", "at", c.ConnectedUrlRedacted()) }),
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
	for end := time.Now().Add(reachPatience); ; {
		nc, err := nats.Connect(urls, options...)
		if err == nil || ctx.Err() != nil || time.Now().After(end) || errors.Is(err, nats.ErrAuthorization) {
			return nc, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// front is gateway.Config.Front.
func (o *office) front(route string) http.Handler {
	if o.closed() != nil {
		return o.outage.handler(route)
	}
	if d := (*o.desks.Load())[route]; d != nil {
		return d.route
	}
	return nil
}

// with returns what answers clients: next, and before it the jobs' own path.
func (o *office) with(next http.Handler) http.Handler {
	if o == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, o.path) {
			if rw, ok := w.(interface{ SetRoute(name string) }); ok { // for the access log
				rw.SetRoute("jobs")
			}
			if v := o.vault.Load(); v != nil && o.closed() == nil {
				v.service.ServeHTTP(w, r)
			} else {
				jobshttp.Refuse(w, r, jobs.ErrUnavailable)
			}
			return
		}
		next.ServeHTTP(w, r)
	})
}

// attach has the gateway ask the office about requests.
func (o *office) attach(c gateway.Config) gateway.Config {
	if o != nil {
		c.Front = o.front
	}
	return c
}

// next answers a route's requests. Those of a route that was renamed meanwhile are
// the new one's. What has no route, as while a reload takes it out, has not begun
// and can be tried again.
func (o *office) next(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.p.gateway.ServeRoute(w, r, name) {
			return
		}
		if heir := o.heir(name); heir != "" && o.p.gateway.ServeRoute(w, r, heir) {
			return
		}
		if rw, ok := w.(weirhttp.ReceiptWriter); ok {
			rw.SetReceipt(weirhttp.Receipt{Outcome: weirhttp.OutcomeRefused, Err: weir.ErrClosed})
		}
		weirhttp.Error(w, r, weir.ErrClosed)
	})
}

// prepare makes the desks that s asks for, with those there are that have not
// changed. Until commit nobody works at the new ones.
func (o *office) prepare(ctx context.Context, s Settings) (map[string]*desk, error) {
	if o == nil {
		return nil, nil
	}
	o.outage.routes(s.Jobs.Routes, o.next)
	v := o.vault.Load()
	if v == nil {
		return map[string]*desk{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, jobsPatience)
	defer cancel()
	was, now := *o.desks.Load(), map[string]*desk{}
	for _, name := range slices.Sorted(maps.Keys(s.Jobs.Routes)) {
		options := s.Jobs.Routes[name]
		if d := was[name]; d != nil && reflect.DeepEqual(d.options, options) {
			now[name] = d
			continue
		}
		route, err := v.service.Route(ctx, name, o.next(name), options)
		if err != nil && v.server != nil && v.server.Err() != nil && len(was) == 0 {
			o.shut(v.server.Err())
			return map[string]*desk{}, nil
		}
		if err != nil {
			o.keep(was)
			return nil, fmt.Errorf("jobs: %w", err)
		}
		now[name] = &desk{route: route, options: options}
	}
	return now, nil
}

// all are the desks there are.
func (o *office) all() map[string]*desk {
	if o == nil {
		return nil
	}
	return *o.desks.Load()
}

// keep has the service answer for these routes alone.
func (o *office) keep(desks map[string]*desk) {
	if o == nil || o.vault.Load() == nil {
		return
	}
	var routes []*jobshttp.Route
	for _, d := range desks {
		routes = append(routes, d.route)
	}
	o.vault.Load().service.Keep(routes...)
}

// commit opens desks, and closes those that are not among them: their workers
// finish what they have begun. Where workers cannot be started the old ones go
// on.
func (o *office) commit(s Settings, desks map[string]*desk) error {
	if o == nil {
		return nil
	}
	was := *o.desks.Load()
	o.keep(desks)
	o.desks.Store(&desks)
	o.orphans.serve(s.Jobs.Routes)
	if o.vault.Load() != nil {
		o.outage.end()
	}
	concurrency := 0
	if s.Jobs.Workers || o.p.o.Worker {
		concurrency = s.Jobs.Concurrency
	}
	var errs []error
	for name, d := range desks {
		old := was[name]
		if old == d && d.concurrency == concurrency {
			continue
		}
		retired := old.staff()
		if concurrency > 0 {
			workers, err := d.route.Work(jobs.WorkerOptions{Concurrency: concurrency, Observe: o.observe})
			if err != nil {
				errs = append(errs, fmt.Errorf("jobs: route %s: %w", name, err))
				d.hire(retired, -1) // the next reload tries again
				continue
			}
			d.hire(workers, concurrency)
		} else {
			d.hire(nil, 0)
		}
		o.retire(retired)
	}
	for name, d := range was {
		if desks[name] == nil {
			o.retire(d.staff())
		}
	}
	o.warnOrphans()
	return errors.Join(errs...)
}

// staff are the desk's workers, nil for none.
func (d *desk) staff() *jobshttp.Workers {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.workers
}

func (d *desk) hire(w *jobshttp.Workers, concurrency int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers, d.concurrency = w, concurrency
}

// retire stops workers in the background, until the end of the drain.
func (o *office) retire(w *jobshttp.Workers) {
	if w != nil {
		o.p.old.Go(func() { _ = w.Stop(o.p.end) }) // what it has not finished is handed back
	}
}

// leave is for the drain: nobody waits any more, and no job is begun.
func (o *office) leave() {
	if o == nil || o.vault.Load() == nil {
		return
	}
	o.vault.Load().service.Leave()
	for _, d := range *o.desks.Load() {
		o.retire(d.staff())
	}
}

// close lets go of the jobs. Workers have stopped, or do so at once.
func (o *office) close() {
	if o == nil {
		return
	}
	o.outage.end()
	if v := o.vault.Load(); v != nil {
		o.leave()
		o.p.old.Wait()
		v.close(o.p.logger)
	}
}

// jobsStore is the Store of the running proxy, nil for none.
func (o *office) jobsStore() *jobs.Store {
	if o == nil || o.vault.Load() == nil {
		return nil
	}
	return o.vault.Load().store
}

// observe has the log tell what clients cannot see, a few of each second.
func (o *office) observe(e jobs.Event) {
	if (e.Kind == jobs.Trouble || e.Kind == jobs.Ended) && o.trouble.Allow() {
		text := "a job has failed"
		if e.Kind == jobs.Trouble {
			text = "a worker cannot reach the jobs"
		}
		o.p.logger.Log(context.Background(), slog.LevelWarn, text, "queue", e.Queue, "job", e.ID, "attempt", e.Attempt, "error", e.Err)
	}
}

// A deskInfo is what /stats tells of a route's jobs, in this program.
type deskInfo struct {
	Submitted  uint64 `json:"submitted"`
	Joined     uint64 `json:"joined"`
	Refused    uint64 `json:"refused"`
	Running    int    `json:"running"`
	Started    uint64 `json:"started"`
	Succeeded  uint64 `json:"succeeded"`
	Retried    uint64 `json:"retried"`
	Failed     uint64 `json:"failed"`
	HandedBack uint64 `json:"handed_back"`
	Trouble    uint64 `json:"trouble"`
}

// info is called from any goroutine.
func (o *office) info() map[string]deskInfo {
	if o == nil {
		return nil
	}
	all := map[string]deskInfo{}
	for name, d := range *o.desks.Load() {
		s := d.route.Stats()
		i := deskInfo{Submitted: s.Submitted, Joined: s.Joined, Refused: s.Refused}
		if w := d.staff(); w != nil {
			s := w.Stats()
			i.Running, i.Started, i.Succeeded, i.Retried = s.Running, s.Started, s.Succeeded, s.Retried
			i.Failed, i.HandedBack, i.Trouble = s.Ended, s.HandedBack, s.Trouble
		}
		all[name] = i
	}
	return all
}

// fixedJobs is what of the section jobs needs a restart, as text.
func fixedJobs(j *config.Jobs) string {
	if j == nil {
		return ""
	}
	fixed := *j
	fixed.Workers, fixed.Concurrency = false, 0
	text, err := json.Marshal(fixed)
	if err != nil {
		return err.Error() // there is nothing in it that cannot be written
	}
	return string(text)
}

// stay puts the jobs that there are into a new configuration: routes, workers
// and their number can change.
func (p *proxy) stay(s *Settings) {
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

// asynchrony says which requests of a route become jobs.
func asynchrony(o jobshttp.RouteOptions) string {
	if o.Budget > 0 {
		return fmt.Sprintf("jobs of all, 202 after %v", o.Budget)
	}
	return "jobs on request"
}

// summaryOfJobs says in a few words what an accepted job survives, and where it
// is.
func summaryOfJobs(a config.JobsAccess, where string) string {
	kept := map[jobs.Durability]string{
		jobs.Process:  "accepted survives a killed process (process)",
		jobs.Disk:     "accepted survives a loss of power (disk)",
		jobs.Majority: "accepted survives the loss of some servers (majority)",
	}[durabilityOf(a)]
	makes := fmt.Sprintf("%d at once", a.Concurrency)
	if !a.Workers {
		makes = "made elsewhere"
	}
	return strings.Join([]string{kept, "in " + cmp.Or(where, placeOf(a, false)), "namespace " + a.Namespace, makes}, ", ")
}
