package cli

import (
	"errors"
	"io"
	"os"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/terminal"
)

// workerCmd is weir worker: it runs the jobs of a proxy's routes.
type workerCmd struct {
	Config      string `short:"c" placeholder:"FILE" help:"Configuration of weir proxy, YAML. Default: WEIR_CONFIG."`
	Concurrency string `placeholder:"N" help:"Concurrent jobs of each route. Overrides the file."`
	Admin       string `placeholder:"ADDRESS" help:"Host and port of the admin listener. Without this flag there is none, even if the file configures one."`
	LogFormat   string `placeholder:"FORMAT" help:"json or text. Overrides the file."`
	LogLevel    string `placeholder:"LEVEL" help:"debug, info, warn or error. Overrides the file."`
}

// workerSpan bounds --concurrency, like jobs.concurrency.
var workerSpan = command.Span[int]{Least: 1, Most: 4096}

// Help is the longer part of weir worker --help.
func (workerCmd) Help() string {
	return `Runs the jobs that weir proxy has accepted for routes with async, with the same configuration: it calls the same upstreams with the same limits, which it counts separately. It accepts no client connections.

    weir worker --config weir.yaml

It takes jobs from the servers in jobs.nats or, with jobs.dir, from the proxy that uses the folder, at jobs.listen. Set jobs.workers: false in the proxy only if it should run no jobs itself.

Signals: SIGHUP reloads the configuration. SIGTERM and Ctrl-C stop it: running jobs have drain.timeout to finish and are then handed back. A second signal stops it at once; another worker runs its jobs after their leases expire.

Exit code: 0 clean shutdown; 1 could not start; 2 wrong usage or configuration.`
}

// Run runs the command.
func (c *workerCmd) Run(r *command.Run) error {
	concurrency := 0 // the file's
	if c.Concurrency != "" {
		var f command.Faults
		concurrency = f.Number("concurrency", c.Concurrency, workerSpan)
		if len(f) > 0 {
			return &command.UsageError{Command: "weir worker", Faults: f}
		}
	}
	source := proxySource{Config: c.Config, Flags: config.Flags{Admin: c.Admin, LogFormat: c.LogFormat, LogLevel: c.LogLevel}}
	err := proxy.Run(r.Context, proxy.Options{
		Load:     func() (proxy.Settings, error) { return c.load(source, concurrency) },
		Source:   source.name(r.Getenv),
		Stdout:   io.Discard, // no access log
		Stderr:   r.Stderr,
		Terminal: terminal.Is(r.Stderr, r.Getenv),
		Getenv:   r.Getenv,
		Hangups:  r.Hangups(),
		OnDrain:  r.Leaves,
		Worker:   true,
	})
	if bad, ok := errors.AsType[*proxy.ConfigError](err); ok {
		return &command.ConfigError{Command: "weir worker", Text: faultText(bad.Err)}
	}
	return err
}

// load reads the part of the configuration that concerns a worker. A concurrency of 0 is
// the file's.
func (c *workerCmd) load(source proxySource, concurrency int) (proxy.Settings, error) {
	read, err := config.Load(config.Source{File: source.Config, Env: os.Environ(), Flags: source.Flags})
	if err != nil {
		return proxy.Settings{}, err
	}
	s, err := proxy.Configure(read)
	if err != nil {
		return s, err
	}
	if s.Jobs == nil || len(s.Jobs.Routes) == 0 {
		return s, errors.New("there is nothing to do: no route has async")
	}
	if s.Jobs.Dir != "" && s.Jobs.Listen == "" {
		return s, errors.New("jobs.listen is missing: a worker gets jobs in jobs.dir from the proxy that uses the folder, at that address")
	}
	if concurrency > 0 {
		s.Jobs.Concurrency = concurrency
	}
	s.Listen, s.Jobs.Workers = nil, true
	s.Admin.Address = c.Admin
	return s, nil
}
