package proxy

import (
	"context"
	"net"
	"net/http"
	runtimemetrics "runtime/metrics"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/adapter/weirprom"
	"github.com/weir-go/weir/app/proxy/admin"
	"github.com/weir-go/weir/app/proxy/metrics"
	"github.com/weir-go/weir/app/proxy/queues"
	"github.com/weir-go/weir/app/proxy/show"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/console/build"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/jobs"
)

// An adminUI is the operators' view of a proxy: the console and the metrics. It lives as
// long as the gateway, so their history survives a reload.
type adminUI struct {
	p        *proxy
	source   *show.Source
	board    *queues.Board
	metrics  http.Handler
	sessions *console.Sessions

	console *console.Console // nil: none
	keys    bool             // show keys
	token   string           // with which its sessions were opened
}

// openAdmin creates the adminUI. The gateway and the jobs are open already.
func (p *proxy) openAdmin() error {
	u := &adminUI{p: p, sessions: console.NewSessions()}
	var keeper queues.Keeper
	if p.jobs != nil {
		keeper = p.jobs
	}
	u.board = queues.New(keeper, p.logger)
	p.adminUI = u
	u.source = show.New(show.Options{Gateway: p.gateway, Queues: u.queues, Process: u.process, Responses: p.tally.Counts})
	o := metrics.Options{Queues: u.board.Queues, Program: u.program, Responses: p.tally.Counts, Logger: p.logger}
	if g, ok := p.gateway.(*gateway.Gateway); ok { // or a fake in tests
		c, err := weirprom.New(weirprom.Options{Gateway: g})
		if err != nil {
			return err
		}
		o.Gateway = prometheus.Collector(c)
	}
	var err error
	u.metrics, err = metrics.Handler(o)
	return err
}

// close ends all event streams.
func (u *adminUI) close() {
	if u == nil {
		return
	}
	if u.console != nil {
		_ = u.console.Close(done) // its last sample is not needed
	}
	u.board.Close()
}

// handler returns the operators' endpoints for the configuration.
func (u *adminUI) handler(c Settings) http.Handler {
	u.source.Configure(c.Gateway)
	o := admin.Options{
		Token:    c.Admin.Token,
		Hosts:    c.Admin.Hosts,
		Sessions: u.sessions,
		Ready:    u.p.ready,
		Process:  func() any { return u.p.process() },
		Jobs:     u.p.jobs.jobsStore(),
		JobsFail: u.p.jobs.jobsFailure,
		Keys:     u.p.keys.claimed(),
		Metrics:  u.metrics,
		Logger:   u.p.logger,
	}
	browsers := o // see keys only if that is enabled
	browsers.HideKeys = !c.Admin.ShowKeys
	u.open(c.Admin, admin.Endpoints(u.p.gateway, browsers))
	if u.console != nil {
		o.Console = u.console.Bare()
	}
	return admin.New(u.p.gateway, o)
}

// open opens or closes the console according to a. A console that stays open keeps its
// history. A new token means a new console: otherwise a client with the old token would
// keep receiving the events of its open stream.
func (u *adminUI) open(a Admin, endpoints http.Handler) {
	wanted := a.Address != "" && a.Console
	if u.console != nil && (!wanted || u.keys != a.ShowKeys || u.token != a.Token) {
		_ = u.console.Close(done) // its last sample is not needed
		u.console = nil
	}
	if !wanted || u.console != nil {
		return
	}
	o := console.Options{
		Title: u.p.name(), Source: u.source, ShowKeys: a.ShowKeys,
		Purge: endpoints, Explain: endpoints, Logger: u.p.logger,
	}
	if u.p.jobs != nil {
		o.Jobs = endpoints
	}
	if u.p.keys != nil {
		o.Idempotency = endpoints
	}
	if r := u.p.fleet.roster(); r != nil {
		o.Roster, o.Self = r, u.p.id
	}
	c, err := console.New(o)
	if err != nil {
		u.p.logger.Error("the console could not be started", "error", err)
		return
	}
	u.console, u.keys, u.token = c, a.ShowKeys, a.Token
}

// process returns the console's data about the program. It is safe for concurrent use.
func (u *adminUI) process() console.Process {
	info := u.p.process()
	heap := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(heap)
	return console.Process{
		Version: build.Version(), Go: info.Go, PID: info.PID, Started: info.Started, State: info.State,
		Goroutines: info.Goroutines, Memory: heap[0].Value.Uint64(),
	}
}

// program returns the data for /metrics. It is safe for concurrent use.
func (u *adminUI) program() metrics.Program {
	r := u.p.reloads.get()
	return metrics.Program{
		Version: build.Version(), Ready: u.p.ready() == nil, Connections: u.p.slots.Taken(), FastRequests: u.p.fast.Load(), UploadsReset: u.p.lingering.Reset(),
		Reloads: r.Done, FailedReloads: r.Failed, LastReloadFailed: r.Error != "",
	}
}

// queues returns the queues of the jobs, with this program's share of the work. It is safe
// for concurrent use.
func (u *adminUI) queues() []console.Queue {
	var here map[string]jobs.WorkerStats
	if s := u.p.jobs.jobsStore(); s != nil {
		here = s.WorkerStats()
	}
	var all []console.Queue
	for _, q := range u.board.Queues() {
		d := here[q.Queue]
		one := console.Queue{
			Name: q.Queue, Waiting: q.Waiting, Running: q.Taken, Dead: q.Dead, Age: q.Oldest,
			Done: d.Succeeded, Failed: d.Ended, Paused: q.Paused,
		}
		if c := u.p.jobs.orphanCount(q.Queue); c != nil {
			one.Orphan = &console.Orphan{
				Queued: c.Queued, Started: c.Started, Dead: c.Dead, Finished: c.Finished, Setting: adoptSetting(q.Queue),
			}
		}
		all = append(all, one)
	}
	return all
}

// name returns the program's name.
func (p *proxy) name() string {
	if p.o.Worker {
		return "weir worker"
	}
	return "weir proxy"
}

// consoleAddress returns the address of the console for a browser: a wildcard address is
// replaced.
func consoleAddress(listens string) string {
	host, port, err := net.SplitHostPort(listens)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		listens = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + listens + admin.ConsolePath
}

// endStreams ends event streams with ctx: otherwise a listener that is being closed
// would stay open for as long as a browser shows the console.
func endStreams(ctx context.Context, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, admin.ConsolePath) && strings.HasSuffix(r.URL.Path, "/events") {
			stream, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			r = r.WithContext(stream)
		}
		next.ServeHTTP(w, r)
	})
}
