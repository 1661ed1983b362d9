package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/terminal"
)

// proxyCmd is weir proxy: it runs the proxy or checks a configuration.
type proxyCmd struct {
	proxySource
	Run   proxyRunCmd   `cmd:"" default:"withargs" help:"Run the proxy."`
	Check proxyCheckCmd `cmd:"" help:"Check a configuration and describe it."`
}

// Help is the longer part of weir proxy --help.
func (proxyCmd) Help() string {
	return `A reverse proxy that keeps a slow service available under load: concurrent requests for the same resource become one call, responses are cached as HTTP allows, and the service gets no more concurrent calls than it can handle.

Quick start, in front of a service on port 3000:

    weir proxy --upstream http://localhost:3000

Clients then connect to 127.0.0.1:8080. Configure more in a file (--config FILE) or in variables (such as WEIR_UPSTREAM, one for each flag). Flags override variables, and variables override the file.

    weir proxy check --config weir.yaml    # lists its errors, or describes it
    weir proxy --config weir.yaml --admin 127.0.0.1:9090
    curl http://127.0.0.1:9090/            # what the admin listener offers

Signals: SIGHUP reloads the configuration, and keeps the old one if the new one is invalid. SIGTERM and Ctrl-C stop the proxy: requests in flight have --drain-timeout to finish. A second signal stops it at once.

Exit code: 0 clean shutdown; 1 could not start, or cut requests off; 2 wrong usage or configuration.`
}

// proxySource holds the flags that configure the proxy.
type proxySource struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration, YAML. Default: WEIR_CONFIG."`
	config.Flags
}

// load reads the configuration.
func (s proxySource) load() (proxy.Settings, error) {
	c, err := config.Load(config.Source{File: s.Config, Env: os.Environ(), Flags: s.Flags})
	if err != nil {
		return proxy.Settings{}, err
	}
	return proxy.Configure(c)
}

// name returns where the configuration comes from.
func (s proxySource) name(getenv func(string) string) string {
	switch {
	case s.Config != "":
		return s.Config
	case getenv("WEIR_CONFIG") != "":
		return getenv("WEIR_CONFIG")
	}
	return "flags and variables"
}

// proxyRunCmd is weir proxy without a subcommand.
type proxyRunCmd struct{}

// Help is the help of weir proxy.
func (proxyRunCmd) Help() string { return proxyCmd{}.Help() }

// Run runs the command. The flags are those of weir proxy.
func (proxyRunCmd) Run(r *command.Run, c *proxyCmd) error {
	err := proxy.Run(r.Context, proxy.Options{
		Load:     c.load,
		Source:   c.name(r.Getenv),
		Stdout:   r.Stdout,
		Stderr:   r.Stderr,
		Terminal: terminal.Is(r.Stderr, r.Getenv),
		Getenv:   r.Getenv,
		Hangups:  r.Hangups(),
		OnDrain:  r.Leaves,
	})
	if bad, ok := errors.AsType[*proxy.ConfigError](err); ok {
		return configurationError(bad.Err)
	}
	return err
}

// configurationError returns an error that reports all faults of a configuration, with the
// exit code for wrong usage.
func configurationError(err error) error {
	return &command.ConfigError{Command: "weir proxy", Text: faultText(err)}
}

// faultText returns one block for each fault: the line of the file, with a mark under the
// position.
func faultText(err error) string {
	if f, ok := errors.AsType[config.Faults](err); ok {
		return f.Text()
	}
	return strings.TrimSuffix(err.Error(), "\n") + "\n"
}
