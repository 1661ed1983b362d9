package cli

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/proxy"
	"github.com/weir-go/weir/app/proxy/config"
	"github.com/weir-go/weir/app/terminal"
)

// proxyCmd is weir proxy: it runs, or checks a configuration.
type proxyCmd struct {
	proxySource
	Run   proxyRunCmd   `cmd:"" default:"withargs" help:"Run the proxy."`
	Check proxyCheckCmd `cmd:"" help:"Check a configuration and say what it does."`
}

// Help is the longer part of weir proxy --help.
func (proxyCmd) Help() string {
	return `A reverse proxy that keeps a slow service alive under load: requests for the same thing become one call, answers are cached as HTTP allows, and the service gets no more calls at once than it can bear.

In a hurry, before something on port 3000:

    weir proxy --upstream http://localhost:3000

Clients are answered on 127.0.0.1:8080 then. More is said in a file (--config FILE) or in variables (WEIR_UPSTREAM, one for each flag); flags win over variables, and they over the file.

    weir proxy check --config weir.yaml    # all that is wrong with it, or what it does
    weir proxy --config weir.yaml --admin 127.0.0.1:9090
    curl http://127.0.0.1:9090/            # what operators can ask

Signals: SIGHUP reads the configuration again, and keeps the old one if the new one is bad. SIGTERM and Ctrl-C end it: requests that are being answered have --drain-timeout to end. A second one ends it at once.

Exit code: 0 ended in good order; 1 could not start, or cut requests off; 2 wrong usage or configuration.`
}

// proxySource are the flags that say what to do.
type proxySource struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration, YAML. WEIR_CONFIG without it."`
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

// name says where the configuration comes from.
func (s proxySource) name(getenv func(string) string) string {
	switch {
	case s.Config != "":
		return s.Config
	case getenv("WEIR_CONFIG") != "":
		return getenv("WEIR_CONFIG")
	}
	return "flags and variables"
}

// proxyRunCmd is weir proxy without another word.
type proxyRunCmd struct{}

// Help is that of weir proxy.
func (proxyRunCmd) Help() string { return proxyCmd{}.Help() }

// Run is the command. The flags are those of weir proxy.
func (proxyRunCmd) Run(r *command.Run, c *proxyCmd) error {
	err := proxy.Run(r.Context, proxy.Options{
		Load:     c.load,
		Source:   c.name(r.Getenv),
		Stdout:   &shared{w: r.Stdout},
		Stderr:   &shared{w: r.Stderr},
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

// configurationError has all faults of a configuration told, and the exit code
// of wrong usage.
func configurationError(err error) error {
	return &command.ConfigError{Command: "weir proxy", Text: faultText(err)}
}

// faultText is one block for each fault: the line of a file, and a mark under
// the place.
func faultText(err error) string {
	if f, ok := errors.AsType[config.Faults](err); ok {
		return f.Text()
	}
	return strings.TrimSuffix(err.Error(), "\n") + "\n"
}

// shared is a writer for several goroutines.
type shared struct {
	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
