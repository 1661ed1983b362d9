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
	"github.com/weir-go/weir/app/proxy/show"
	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/internal/build"
)

// A sight is what operators see of a proxy: the console and the metrics. It lasts
// as long as the gateway, so a reload loses nothing of the past.
type sight struct {
	p        *proxy
	source   *show.Source
	board    *show.Board
	metrics  http.Handler
	sessions *console.Sessions

	console *console.Console // nil: none
	keys    bool             // it shows them
	token   string           // of those whom it was shown to
}

// see opens what there is to see. The gateway and the office stand.
func (p *proxy) see() error {
	s := &sight{p: p, sessions: console.NewSessions()}
	var keeper show.Keeper
	if p.office != nil {
		keeper = p.office
	}
	s.board = show.NewBoard(keeper, p.logger)
	p.sight = s
	s.source = show.New(show.Options{Gateway: p.gateway, Queues: s.queues, Process: s.process})
	o := metrics.Options{Queues: s.board.Queues, Program: s.program, Logger: p.logger}
	if g, ok := p.gateway.(*gateway.Gateway); ok { // or a test's
		c, err := weirprom.New(weirprom.Options{Gateway: g})
		if err != nil {
			return err
		}
		o.Gateway = prometheus.Collector(c)
	}
	var err error
	s.metrics, err = metrics.Handler(o)
	return err
}

// close ends all streams of events.
func (s *sight) close() {
	if s == nil {
		return
	}
	if s.console != nil {
		s.console.Close()
	}
	s.board.Close()
}

// handler returns the operators' endpoints for what the configuration says.
func (s *sight) handler(c Settings) http.Handler {
	s.source.Configure(c.Gateway)
	o := admin.Options{
		Token:    c.Admin.Token,
		Hosts:    c.Admin.Hosts,
		Sessions: s.sessions,
		Ready:    s.p.ready,
		Process:  func() any { return s.p.process() },
		Jobs:     s.p.office.jobsStore(),
		JobsFail: s.p.office.jobsFailure,
		Metrics:  s.metrics,
		Logger:   s.p.logger,
	}
	browsers := o // get no keys but where they are switched on
	browsers.HideKeys = !c.Admin.ShowKeys
	s.open(c.Admin, admin.Endpoints(s.p.gateway, browsers))
	if s.console != nil {
		o.Console = s.console.Bare()
	}
	return admin.New(s.p.gateway, o)
}

// open opens or closes the console as a says. One that goes on keeps its history.
// With another token there is another one, or who had the old token would go on
// to see the events of a stream that is open.
func (s *sight) open(a Admin, endpoints http.Handler) {
	wanted := a.Address != "" && a.Console
	if s.console != nil && (!wanted || s.keys != a.ShowKeys || s.token != a.Token) {
		s.console.Close()
		s.console = nil
	}
	if !wanted || s.console != nil {
		return
	}
	o := console.Options{
		Title: s.p.name(), Source: s.source, ShowKeys: a.ShowKeys,
		Purge: endpoints, Explain: endpoints, Logger: s.p.logger,
	}
	if s.p.office != nil {
		o.Jobs = endpoints
	}
	if r := s.p.crew.roster(); r != nil {
		o.Roster, o.Self = r, s.p.id
	}
	c, err := console.New(o)
	if err != nil {
		s.p.logger.Error("there is no console", "error", err)
		return
	}
	s.console, s.keys, s.token = c, a.ShowKeys, a.Token
}

// process is what the console tells of the program, from any goroutine.
func (s *sight) process() console.Process {
	info := s.p.process()
	heap := []runtimemetrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	runtimemetrics.Read(heap)
	return console.Process{
		Version: build.Version(), Go: info.Go, PID: info.PID, Started: info.Started, State: info.State,
		Goroutines: info.Goroutines, Memory: heap[0].Value.Uint64(),
	}
}

// program is what /metrics tells of it, from any goroutine.
func (s *sight) program() metrics.Program {
	r := s.p.reloads.get()
	return metrics.Program{
		Version: build.Version(), Ready: s.p.ready() == nil, Connections: s.p.slots.Taken(),
		Reloads: r.Done, FailedReloads: r.Failed, LastReloadFailed: r.Error != "",
	}
}

// queues are those of the jobs, with what this program has done of them, from any
// goroutine. A route's jobs that are not sent twice have a queue of their own, and
// are counted in the one that has the route's name.
func (s *sight) queues() []console.Queue {
	desks := s.p.office.info()
	var all []console.Queue
	for _, q := range s.board.Queues() {
		d := desks[q.Queue]
		one := console.Queue{
			Name: q.Queue, Waiting: q.Waiting, Running: q.Taken, Dead: q.Dead, Age: q.Oldest,
			Done: d.Succeeded, Failed: d.Failed,
		}
		if c := s.p.office.lost(q.Queue); c != nil {
			one.Orphan = &console.Orphan{
				Queued: c.Queued, Started: c.Started, Dead: c.Dead, Finished: c.Finished, Setting: adopts(q.Queue),
			}
		}
		all = append(all, one)
	}
	return all
}

// name is what the program is called.
func (p *proxy) name() string {
	if p.o.Worker {
		return "weir worker"
	}
	return "weir proxy"
}

// consoleAddress is where a browser finds the console of a listener: an address
// that stands for all of the machine's is none to go to.
func consoleAddress(listens string) string {
	host, port, err := net.SplitHostPort(listens)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		listens = net.JoinHostPort("127.0.0.1", port)
	}
	return "http://" + listens + admin.ConsolePath
}

// hushed has streams of events end with ctx: those of a door that is let go would
// hold up its end for as long as somebody looks.
func hushed(ctx context.Context, next http.Handler) http.Handler {
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
