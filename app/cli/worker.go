package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/terminal"
)

// workerCmd is weir worker: it makes the jobs of a proxy's routes.
type workerCmd struct {
	Config      string `short:"c" placeholder:"FILE" help:"Configuration of weir proxy, YAML. WEIR_CONFIG without it."`
	Concurrency int    `placeholder:"N" help:"Jobs at once, of each route, in place of the file's."`
	Admin       string `placeholder:"ADDRESS" help:"Host and port of a listener for operators. There is none without it, whatever the file says."`
	LogFormat   string `placeholder:"FORMAT" help:"json or text, in place of the file's."`
	LogLevel    string `placeholder:"LEVEL" help:"debug, info, warn or error, in place of the file's."`
}

// Help is the longer part of weir worker --help.
func (workerCmd) Help() string {
	return `Makes the jobs that weir proxy has accepted for routes with async, with the same configuration: it calls the same upstreams under the same limits (each program its own). Nobody connects to it.

    weir worker --config weir.yaml

It takes jobs from the servers in jobs.nats, or with jobs.dir from the proxy that has the folder, at jobs.listen. The proxy needs jobs.workers: false only if it should make none itself.

Signals: SIGHUP reads the configuration again. SIGTERM and Ctrl-C end it: jobs that run have drain.timeout to end, and are handed back then. A second one ends it at once; what it had is made by another worker after the lease.

Exit code: 0 ended in good order; 1 could not start; 2 wrong usage or configuration.`
}

// Run is the command.
func (c *workerCmd) Run(r *command.Run) error {
	if c.Concurrency < 0 {
		return &command.ConfigError{Command: "weir worker", Text: "--concurrency " + strconv.Itoa(c.Concurrency) + " must be 1 to 4096\n"}
	}
	source := proxySource{Config: c.Config, Flags: config.Flags{Admin: c.Admin, LogFormat: c.LogFormat, LogLevel: c.LogLevel}}
	err := proxy.Run(r.Context, proxy.Options{
		Load:     func() (proxy.Settings, error) { return c.load(source) },
		Source:   source.name(r.Getenv),
		Stdout:   io.Discard, // no access log
		Stderr:   &shared{w: r.Stderr},
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

// load reads what of the configuration is for a worker.
func (c *workerCmd) load(source proxySource) (proxy.Settings, error) {
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
		return s, errors.New("jobs.listen is missing: jobs in jobs.dir are reached where the proxy that has the folder listens")
	}
	if c.Concurrency > 4096 {
		return s, fmt.Errorf("--concurrency %d must be 1 to 4096", c.Concurrency)
	}
	if c.Concurrency > 0 {
		s.Jobs.Concurrency = c.Concurrency
	}
	s.Listen, s.Jobs.Workers = nil, true
	s.Admin.Address = c.Admin
	return s, nil
}
