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
	"github.com/weir-go/weir/app/proxy/lines"
	"github.com/weir-go/weir/app/proxy/listen"
	"github.com/weir-go/weir/app/proxy/notify"
	"github.com/weir-go/weir/app/proxy/tally"
	"github.com/weir-go/weir/gateway"
	"github.com/weir-go/weir/weirhttp"
)

// Options contain what a proxy takes from its environment.
type Options struct {
	// Load reads the configuration at startup and at each reload, on a separate
	// goroutine. Its error contains all faults, joined.
	Load func() (Settings, error)
	// Source describes where the configuration comes from, for people.
	Source string
	// Stdout receives the access log, Stderr the program's own messages. Each is
	// called by one goroutine at a time, and may block: see package lines.
	Stdout, Stderr io.Writer
	// Terminal reports whether a person reads Stderr.
	Terminal bool
	// Getenv reads the service manager's environment variables. nil means there is
	// none.
	Getenv func(string) string
	// Hangups delivers reload requests (SIGHUP).
	Hangups <-chan struct{}
	// OnDrain is called when the drain begins. what describes the work that would be
	// cut off if the program exited at once. nil means no call.
	OnDrain func(what string)
	// Worker is set if the program has no listeners for clients and only executes jobs.
	Worker bool
	// New creates the gateway. nil means gateway.New.
	New func(gateway.Config) (Gateway, error)
}

// A ConfigError reports a configuration that cannot be used.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return e.Err.Error() }
func (e *ConfigError) Unwrap() error { return e.Err }

// The states of a proxy.
const (
	starting int32 = iota
	serving
	draining
)

// A proxy is the running program. Its methods are called on Run's goroutine unless they
// say otherwise.
type proxy struct {
	observer weirhttp.Observer // of the gateway, created once
	o        Options
	id       string // of this process
	settings Settings
	gateway  Gateway
	fleet    fleetClient
	keys     *keyStore
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
	lingering     listen.Lingering
	listeners     []listener
	failed        chan error             // of a listener
	adminURL      atomic.Pointer[string] // of the admin listener; an atomic because the presence reads it
	access        atomic.Pointer[access.Log]
	messages      *lines.Writer // to Stderr
	messagesLost  atomic.Uint64
	accessOut     *access.Output // of each access log, before and after a reload
	tally         tally.Tally    // of what clients received
	fast          atomic.Uint64  // requests served without net/http, on all listeners

	base      context.Context // of all requests; ends when they are cut
	cut       context.CancelFunc
	drainCtx  context.Context // ends with the drain timeout
	endDrain  context.CancelFunc
	closeIdle chan struct{}  // closed some time after the sockets are closed at shutdown
	retired   sync.WaitGroup // of retired servers

	state   atomic.Int32 // an atomic because /readyz reads it
	reloads reloads
}

// Run runs a proxy until ctx ends, and then drains it. The error is a *ConfigError if
// the proxy could not start because of its configuration. It is nil if the drain cut
// off no request.
func Run(ctx context.Context, o Options) error {
	settings, err := load(ctx, o)
	if err != nil && ctx.Err() != nil {
		return nil // stopped before there was anything to cut off
	}
	if err != nil {
		return &ConfigError{err}
	}
	heap.SetFloor()
	p, err := start(ctx, o, settings)
	if err != nil {
		return err
	}
	defer p.flushLogs()
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
			p.logger.Error("a listener failed", "error", err)
			return errors.Join(err, p.drain())
		}
	}
}

// lastLines is how long the end of a proxy waits for lines of its logs to be written.
const lastLines = time.Second

func (p *proxy) flushLogs() {
	p.accessOut.Flush(lastLines)
	p.messages.Flush(lastLines)
}

// load reads the configuration until ctx ends. The configuration can be in files that
// are slow to read, such as pipes. In that case Load continues in the background after
// load has returned.
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

// start brings up everything, or nothing.
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
	p.messages = lines.New(o.Stderr, true, func(n int, _ error) { p.messagesLost.Add(uint64(n)) })
	p.logger = newLogger(p.messages, s.Access.Format, &p.level)
	catchStdlibLogs(p.logger)
	p.accessOut = access.NewOutput(o.Stdout, p.logger)
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
// error, shutdown closes the parts that have been created.
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
	if err := p.openFolder(s); err != nil {
		return &ConfigError{err}
	}
	if err := p.openKeys(&s); err != nil {
		p.closeFolder(s)
		return &ConfigError{err}
	}
	g, err := p.o.New(p.gatewayConfig(s))
	if err != nil {
		p.closeFolder(s)
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
	ao.Out, ao.Logger = p.accessOut, p.logger
	trusted := s.Gateway.TrustedProxies
	ao.Client = func(r *http.Request) string { return gateway.ClientAddr(r, trusted).String() }
	ao.Tally = &p.tally
	p.tally.Routes(routeNames(s.Gateway))
	log := access.New(ao)
	p.access.Store(log)
	p.public.set(log.Handler(p.telemetry.with(p.jobs.with(p.gateway))))
	p.admin.set(p.adminUI.handler(s))
	for _, d := range c.fresh {
		d.server.Serve(p.fail)
	}
	for _, d := range c.stale {
		d.closeStreams()
		p.retired.Go(func() { _ = d.server.Retire(p.drainCtx, p.closeIdle) }) // its error means that it was cut off, which drain detects
	}
	p.listeners = c.next
	reached := p.console()
	p.adminURL.Store(&reached)
	for _, w := range s.Warnings {
		p.logger.Warn(w)
	}
}

// fail is called by listeners that have failed, from any goroutine. A single failure
// ends the program.
func (p *proxy) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// noteManager logs an error from a message to the service manager.
func (p *proxy) noteManager(err error) {
	if err != nil {
		p.logger.Warn("cannot notify the service manager", "error", err)
	}
}

// feedWatchdog starts a goroutine that feeds the service manager's watchdog, if there
// is one. stop ends the goroutine and waits for it.
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

// ready returns why the proxy does not want traffic, or nil. It is called from any
// goroutine.
func (p *proxy) ready() error {
	switch p.state.Load() {
	case serving:
		return p.jobs.ready()
	case draining:
		return errors.New("draining")
	}
	return errors.New("starting")
}

// status returns a line for the service manager.
func (p *proxy) status() string {
	return fmt.Sprintf("serving %s on %s", counted(len(p.settings.Gateway.Routes), "route", "routes"), counted(len(p.settings.Listen), "listener", "listeners"))
}
