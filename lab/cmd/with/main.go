// Command with runs a command with disposable engines.
//
//	go run ./lab/cmd/with [--install] [--optional name,...] [name ...] -- [command [argument ...]]
//
// It starts the named engines, sets WEIR_TEST_<ENGINE> to the address of each and
// WEIR_TEST_ENGINES=required, runs the command, passes signals on to it, stops the
// engines, and exits with the command's exit code. With --install, missing engines
// are installed first (see package engine); without a command that is all it does. Programs that are not servers to start
// (ab, caddy, chromium, h2load, hey, nginx, node, npm, pgbouncer, pip, promtool, varnish, wrk) only have to be
// installed. For redis and valkey WEIR_TEST_<ENGINE>_SERVER is the program's file,
// for tests that start, kill and pause their own server. For the programs that are
// not started, WEIR_TEST_<PROGRAM> is the file.
//
// An optional engine is left out if it is missing and --install cannot install it,
// because the machine's package lists lack it or it requires root. So is a package
// manager (npm, pip) whose registry does not respond. This is reported,
// and its name is added to the comma-separated list WEIR_TEST_WITHOUT: only its tests
// may be skipped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/proc"
)

func main() {
	proc.DieWithParent()
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "with:", err)
	}
	os.Exit(code)
}

// run returns the exit code, and an error if the command was not run.
func run(args []string) (int, error) {
	flags := flag.NewFlagSet("with", flag.ContinueOnError)
	install := flags.Bool("install", false, "install missing engines first")
	optional := flags.String("optional", "", "engines to start if available, comma-separated")
	cut := slices.Index(args, "--")
	if cut < 0 {
		return 2, errors.New("usage: with [--install] [--optional name,...] [name ...] -- [command [argument ...]]; names: " + strings.Join(engine.Names(), ", "))
	}
	if err := flags.Parse(args[:cut]); err != nil {
		return 2, nil // flags has printed the error
	}
	o := options{install: *install, names: flags.Args()}
	if *optional != "" {
		o.optional = strings.Split(*optional, ",")
	}
	if cut == len(args)-1 {
		if _, err := o.have(context.Background()); err != nil {
			return 1, err
		}
		return 0, nil
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	env, stop, err := o.startAll(signals)
	defer stop()
	if err != nil {
		return 1, err
	}
	return command(signals, env, args[cut+1:])
}

// options are the engines to start.
type options struct {
	install         bool
	names, optional []string
}

// startAll starts the engines and returns the environment with their addresses. A
// signal ends it early. The caller must call stop in any case.
func (o options) startAll(signals <-chan os.Signal) (env []string, stop func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	var got os.Signal // written before watched is closed
	watched := make(chan struct{})
	go func() { // ends with ctx, before startAll returns
		defer close(watched)
		select {
		case got = <-signals:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		if <-watched; got != nil {
			err = fmt.Errorf("%v while the engines started", got)
		}
	}()

	names, err := o.have(ctx)
	if err != nil {
		return nil, func() {}, err
	}
	env, err = o.tools(names)
	if err != nil {
		return nil, func() {}, err
	}
	servers, err := start(ctx, slices.DeleteFunc(names, func(name string) bool { return !engine.Startable(name) }))
	for _, s := range servers {
		env = append(env, engine.Env(s.Name)+"="+s.URL)
		if s.Name != "redis" && s.Name != "valkey" {
			continue
		}
		path, pathErr := engine.Path(s.Name)
		err = errors.Join(err, pathErr)
		env = append(env, engine.Env(s.Name)+"_SERVER="+path)
	}
	return env, func() { stopAll(servers) }, err
}

// tools returns the environment that does not depend on the started engines: that
// engines are required, the engines that are nevertheless left out, and the files of
// the tools that tests run.
func (o options) tools(have []string) ([]string, error) {
	without := slices.DeleteFunc(slices.Clone(o.optional), func(name string) bool { return slices.Contains(have, name) })
	env := []string{"WEIR_TEST_ENGINES=required", "WEIR_TEST_WITHOUT=" + strings.Join(without, ",")}
	for _, name := range have {
		if engine.Startable(name) {
			continue
		}
		file, err := engine.Path(name)
		if err != nil {
			return nil, err
		}
		env = append(env, engine.Env(name)+"="+file)
	}
	return env, nil
}

// have returns the available engines, after installing missing ones if permitted.
func (o options) have(ctx context.Context) ([]string, error) {
	for _, name := range o.names {
		if err := o.get(ctx, name); err != nil {
			return nil, err
		}
	}
	names := slices.Clone(o.names)
	for _, name := range o.optional {
		err := engine.Installed(name)
		if errors.Is(err, engine.ErrMissing) && o.install && engine.Listed(ctx, name) {
			err = o.get(ctx, name)
		}
		installed := err == nil
		if err == nil {
			err = engine.Registry(ctx, name)
		}
		switch {
		case err == nil:
			names = append(names, name)
		case installed, errors.Is(err, engine.ErrMissing):
			fmt.Fprintf(os.Stderr, "with: WITHOUT %s, and so without the tests against it: %v\n", name, err)
		default:
			return nil, err
		}
	}
	return names, nil
}

func (o options) get(ctx context.Context, name string) error {
	if o.install {
		return engine.Install(ctx, os.Stderr, name)
	}
	return engine.Installed(name)
}

// start starts the engines concurrently, and returns those that started.
func start(ctx context.Context, names []string) ([]*engine.Server, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	servers := make([]*engine.Server, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			if servers[i], errs[i] = engine.Start(ctx, name); errs[i] != nil {
				cancel() // the other engines are no longer needed
			}
		})
	}
	wg.Wait()
	servers = slices.DeleteFunc(servers, func(s *engine.Server) bool { return s == nil })
	return servers, errors.Join(errs...)
}

func stopAll(servers []*engine.Server) {
	for _, s := range servers {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "with:", err)
		}
	}
}

// command runs the command to its end. A signal goes to it and to its children, which
// have their own process group: a terminal's interrupt reaches them only through us,
// exactly once.
func command(signals <-chan os.Signal, env, args []string) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	p, err := proc.Start(cmd, syscall.SIGTERM)
	if err != nil {
		return 1, err
	}
	for {
		select {
		case sig := <-signals:
			p.SignalGroup(sig.(syscall.Signal))
			continue
		case <-p.Ended():
		}
		return exitCode(p.Wait())
	}
}

// exitCode returns a shell's exit code: the command's code, or 128 plus the signal
// that ended it.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case !errors.As(err, &exit):
		return 1, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
