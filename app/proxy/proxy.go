package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/app/proxy/access"
	"github.com/weir-go/weir/app/proxy/heap"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/app/proxy/notify"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// Options are what a proxy has from its surroundings.
type Options struct {
	// Load reads the configuration, at the start and at each reload, on a goroutine
	// of its own. Its error tells all faults, joined.
	Load func() (Settings, error)
	// Source says where the configuration comes from, for people.
	Source string
	// Stdout is given the access log, Stderr the program's own messages. Both
	// must be safe for concurrent use.
	Stdout, Stderr io.Writer
	// Terminal says that a person reads Stderr.
	Terminal bool
	// Getenv tells about the service manager. nil means that there is none.
	Getenv func(string) string
	// Hangups delivers reload requests (SIGHUP).
	Hangups <-chan struct{}
	// OnDrain is called when the drain begins, with what would be cut off if the
	// program ended at once. nil means no call.
	OnDrain func(what string)
	// Worker has no listeners for clients: the program only executes jobs.
	Worker bool
	// New makes the gateway. nil means gateway.New.
	New func(gateway.Config) (Gateway, error)
}

// A ConfigError is a configuration that cannot be used.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// states of a proxy.
const (
	starting int32 = iota
	serving
	draining
)

// A proxy is the running program. Its methods are for the goroutine of Run,
// where they do not say otherwise.
type proxy struct {
	observer weirhttp.Observer // of the gateway, made once
	o        Options
	id       string // of this process
	settings Settings
	gateway  Gateway
	fleet    fleetClient
	jobs     *jobService
	adminUI  *adminUI
	presence *presence

	telemetry *telemetry
	logger    *slog.Logger
	level     slog.LevelVar
	manager   *notify.Manager
	started   time.Time

	public, admin *countingHandler
	slots         *listen.Slots
	listeners     []listener
	failed        chan error             // of a listener
	adminURL      atomic.Pointer[string] // of the admin listener; an atomic, as the presence reads it
	access        atomic.Pointer[access.Log]

	base      context.Context // of all requests; ends when they are cut
	cut       context.CancelFunc
	drainCtx  context.Context // ends when the drain timeout is over
	endDrain  context.CancelFunc
	closeIdle chan struct{}  // closed when sockets are closed at the end
	retired   sync.WaitGroup // of retired servers

	state   atomic.Int32 // an atomic, as /readyz reads it
	reloads reloads
}

// Run runs a proxy until ctx ends, and then brings it to its end. The error is
// a *ConfigError if it could not start because of its configuration, and nil
// after an end that has cut nobody off.
func Run(ctx context.Context, o Options) error {
	settings, err := load(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil // asked to end before there was anything to cut off
	}
	if err != nil {
		return &ConfigError{err}
	}
	heap.SetFloor()
	p, err := start(ctx, o, settings)
	if err != nil {
		return err
	}
	stopWatchdog := p.feedWatchdog()
	defer stopWatchdog()
	for {
		select {
		case <-ctx.Done():
			return p.drain()
		case <-o.Hangups:
			p.reload(ctx)
		case <-p.jobs.retry():
			p.reopenJobs()
		case err := <-p.failed:
			p.logger.Error("a listener has failed", "error", err)
			return errors.Join(err, p.drain())
		}
	}
}

// load reads the configuration until ctx ends. It may be in files that give what
// they have late: then it goes on by itself for as long as that is waited for.
func load(ctx context.Context, o Options) (Settings, error) {
	type result struct {
		settings Settings
		err      error
	}
	done := make(chan result, 1)
	go func() {
		s, err := o.Load()
		done <- result{s, err}
	}()
	select {
	case r := <-done:
		return r.settings, r.err
	case <-ctx.Done():
		return Settings{}, context.Cause(ctx)
	}
}

// start brings everything up, or nothing.
func start(ctx context.Context, o Options, s Settings) (*proxy, error) {
	p := &proxy{
		o:         o,
		id:        newID(),
		public:    newCountingHandler(),
		admin:     newCountingHandler(),
		slots:     listen.NewSlots(s.MaxConnections),
		failed:    make(chan error, 1),
		closeIdle: make(chan struct{}),
		started:   time.Now(),
	}
	if p.o.Getenv == nil {
		p.o.Getenv = func(string) string { return "" }
	}
	if p.o.OnDrain == nil {
		p.o.OnDrain = func(string) {}
	}
	if p.o.New == nil {
		p.o.New = func(c gateway.Config) (Gateway, error) { return gateway.New(c) }
	}
	p.manager = notify.Find(p.o.Getenv)
	p.level.Set(s.Level)
	p.logger = newLogger(o.Stderr, s.Access.Format, &p.level)
	catchStdlibLogs(p.logger)
	p.base, p.cut = context.WithCancel(context.WithoutCancel(ctx))
	p.drainCtx, p.endDrain = context.WithCancel(context.WithoutCancel(ctx))

	opened, err := p.open(s)
	if err != nil {
		return nil, err
	}
	if err := p.connectFleet(ctx, &s); err != nil {
		closeAll(opened.fresh)
		return nil, err
	}
	if err := p.buildGateway(ctx, s); err != nil {
		closeAll(opened.fresh)
		p.shutdown()
		return nil, err
	}
	p.activate(s, opened)
	if r := p.fleet.roster(); r != nil {
		p.presence = announce(r, p.instance)
	}
	p.state.Store(serving)
	p.welcome()
	p.noteManager(p.manager.Ready(p.status()))
	return p, nil
}

// buildGateway creates the gateway, the jobs, the adminUI and the telemetry. After an
// error, shutdown closes what has been created.
func (p *proxy) buildGateway(ctx context.Context, s Settings) error {
	if err := p.openTelemetry(ctx, s); err != nil {
		return err
	}
	var err error
	if p.jobs, err = p.openJobs(ctx, s); err != nil {
		return err
	}
	routes, err := p.jobs.prepare(ctx, s)
	if err != nil {
		return err
	}
	g, err := p.o.New(p.gatewayConfig(s))
	if err != nil {
		return &ConfigError{err}
	}
	p.gateway = g
	if err := p.openAdmin(); err != nil {
		return err
	}
	if err := p.telemetry.watch(g, p.adminUI); err != nil {
		return err
	}
	return p.jobs.activate(s, routes)
}

// gatewayConfig is the gateway's part of s, with its observer and its jobs.
func (p *proxy) gatewayConfig(s Settings) gateway.Config {
	return p.jobs.configure(p.observed(s.Gateway, s.Access.NoQuery))
}

// activate switches to s, whose listeners are open and whose gateway is ready.
func (p *proxy) activate(s Settings, c change) {
	p.settings = s
	p.level.Set(s.Level)
	p.slots.SetMost(s.MaxConnections)
	ao := s.Access
	ao.Out, ao.Logger = p.o.Stdout, p.logger
	trusted := s.Gateway.TrustedProxies
	ao.Client = func(r *http.Request) string { return gateway.ClientAddr(r, trusted).String() }
	log := access.New(ao)
	p.access.Store(log)
	p.public.set(log.Handler(p.telemetry.with(p.jobs.with(p.gateway))))
	p.admin.set(p.adminUI.handler(s))
	for _, d := range c.fresh {
		d.server.Serve(p.fail)
	}
	for _, d := range c.stale {
		d.closeStreams()
		p.retired.Go(func() { _ = d.server.Retire(p.drainCtx, p.closeIdle) }) // its error says that it was cut, which drain sees
	}
	p.listeners = c.next
	reached := p.console()
	p.adminURL.Store(&reached)
	for _, w := range s.Warnings {
		p.logger.Warn(w)
	}
}

// fail is called by listeners that have failed, from any goroutine. One is
// enough to end.
func (p *proxy) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// noteManager logs a failed message to the service manager.
func (p *proxy) noteManager(err error) {
	if err != nil {
		p.logger.Warn("the service manager was not told", "error", err)
	}
}

// feedWatchdog feeds the manager's watchdog if it has one, on a goroutine of its own
// until the function that it returns is called, which waits for it.
func (p *proxy) feedWatchdog() (stop func()) {
	every := p.manager.Watchdog()
	if every <= 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.noteManager(p.manager.Alive())
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// ready tells why the proxy does not want traffic, from any goroutine.
func (p *proxy) ready() error {
	switch p.state.Load() {
	case serving:
		return p.jobs.ready()
	case draining:
		return errors.New("draining")
	}
	return errors.New("starting")
}

// status is a line for the service manager.
func (p *proxy) status() string {
	return fmt.Sprintf("serving %d routes on %d listeners", len(p.settings.Gateway.Routes), len(p.settings.Listen))
}
