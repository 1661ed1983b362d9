// Package democli is the command line of the demo: of weir-demo, and of weir demo, which
// adds PostgreSQL as a source. It imports no client of a database or a server, because
// weir-demo is what somebody builds first.
package democli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/demo"
	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/app/demo/tile"
	"github.com/weir-go/weir/app/report"
	"github.com/weir-go/weir/app/terminal"
)

// Bounds of the flags. A level needs a few requests and must end; each client uses two file
// descriptors; each key's response is computed beforehand.
var (
	durationSpan = command.Span[time.Duration]{Least: 500 * time.Millisecond, Most: 10 * time.Minute}
	clientSpan   = command.Span[int]{Least: 1, Most: 10_000}
	keySpan      = command.Span[int]{Least: 1, Most: 4096}
)

// seed is the seed for the order of the keys.
const seed = 1

// Vars returns the variables in the help of a [Command]'s flags.
func Vars() map[string]string {
	return map[string]string{
		"durations": command.Durations(durationSpan),
		"clients":   command.Numbers(clientSpan),
		"keys":      command.Numbers(keySpan),
	}
}

// A Command is the demo as a command for package command. Its fields are its flags.
type Command struct {
	Duration string `default:"4s" placeholder:"TIME" help:"How long each level runs (${durations})."`
	Clients  string `default:"100" placeholder:"N" help:"Clients, each of which sends its next request as soon as it has a response (${clients})."`
	Keys     string `default:"32" placeholder:"N" help:"Different responses, some requested far more often than others (${keys})."`
	Gateway  bool   `help:"Protect the service from outside, with weir's gateway in front of it, instead of with a Guard in its code."`
	Admin    string `default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Where to serve the web console during the demo: host:port on loopback, because there is no login; port 0 picks a free port, off disables the console."`
	Keep     bool   `help:"After the report, keep the console and the last level running under a light load until an interrupt."`
	JSON     bool   `name:"json" help:"Write one JSON object, with an array of levels in it, to standard output."`
}

// Help is the longer part of the help.
func (Command) Help() string {
	return fmt.Sprintf(`A small HTTP service, on a loopback port, renders a map tile for every request: some tens of milliseconds of pure computing. Clients request tiles as fast as they receive them, and every response is checked. This runs five times, each time from a cold start and with one more level of protection: unprotected, coalescing, + cache (%v), + refresh-ahead, + admission. With --gateway there is one level more: clients come from 1,000 addresses, and first share only with those of the same address.

You can watch the levels in a web console; its address is the first line on standard error. With --keep the console and the last level stay after the report, until Ctrl-C or SIGTERM.

Keys follow a Zipf law with exponent %v, as most traffic does: a few keys get most of the requests.

Examples:

    ${command}                              # half a minute
    ${command} --clients 500 --duration 10s
    ${command} --gateway                    # the same, with no change to the service
    ${command} --keep --admin 127.0.0.1:9090
    ${command} --json | jq '.levels[] | {name, responses_per_s}'

Exit code: 0 success, with --keep also after the interrupt that ends it; 1 failed or interrupted; 2 wrong usage.`, demo.TTL, demo.Skew)
}

// Main runs one command line of weir-demo and returns its exit code. Nothing that it started
// outlives it.
func Main(e command.Env) int {
	return command.Main(e, command.Program{
		Name:    "weir-demo",
		About:   "Demonstrate Weir: real work under load, with one level of protection after another.",
		Grammar: &Command{},
		Vars:    Vars(),
	})
}

// A Target is what the service of a demo calls.
type Target struct {
	Name string // in the report's JSON
	Rows int    // of a table; 0 if there is none
	// Open creates the source, and returns what one call does, in words. Drop, which may
	// be nil, removes what Open has created.
	Open func(r *command.Run, p *terminal.Progress) (src source.Source, work string, drop func() error, err error)
}

// Tiles is the Target that renders map tiles.
func Tiles() Target {
	return Target{Name: "tile", Open: func(*command.Run, *terminal.Progress) (source.Source, string, func() error, error) {
		return tile.Source{}, fmt.Sprintf("a map tile of %d × %d pixels rendered as PNG", tile.Size, tile.Size), nil, nil
	}}
}

// A Plan is a parsed command line.
type Plan struct {
	Keys int

	duration time.Duration
	clients  int
	admin    string // empty: no console
	command  *Command
}

// noAdmin is --admin for no console.
const noAdmin = "off"

// notLoopback returns what is wrong with an address to listen on if only this machine may
// reach it; "" means nothing is wrong.
func notLoopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil {
		return "host:port such as 127.0.0.1:9090, or off"
	}
	if ip := net.ParseIP(host); (ip == nil || !ip.IsLoopback()) && host != "localhost" {
		return "an address on loopback such as 127.0.0.1:" + port + ", because the console of a demo has no login"
	}
	return ""
}

// Plan parses the flags and adds everything that is wrong with them to f.
func (c *Command) Plan(f *command.Faults) Plan {
	p := Plan{
		duration: f.Duration("duration", c.Duration, durationSpan),
		clients:  f.Number("clients", c.Clients, clientSpan),
		Keys:     f.Number("keys", c.Keys, keySpan),
		command:  c,
	}
	if c.Admin != noAdmin {
		p.admin = c.Admin
		if why := notLoopback(c.Admin); why != "" {
			f.Add("admin", c.Admin, why)
		}
	} else if c.Keep {
		f.Add("keep", "true", "an --admin that is not off: without a console there is nothing to see")
	}
	return p
}

// Run runs the demo with tiles.
func (c *Command) Run(r *command.Run) error {
	var f command.Faults
	p := c.Plan(&f)
	if len(f) > 0 {
		return &command.UsageError{Command: r.Command, Faults: f}
	}
	return p.Run(r, Tiles())
}

// Run runs the demo. It writes the report last, after cleaning up, or with --keep before
// that.
func (p Plan) Run(r *command.Run, target Target) error {
	progress := r.Progress()
	defer progress.Close()
	listener, err := p.listen() // early, in case the address is in use
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}

	started := time.Now().UTC()
	src, work, drop, err := target.Open(r, progress)
	if err != nil {
		return err
	}
	write := func(res demo.Result) error {
		progress.Close()
		return p.write(r, p.report(target, started, work, res))
	}
	config := demo.Config{
		Source: src, Clients: p.clients, Keys: p.Keys, Duration: p.duration, Seed: seed,
		Gateway: p.command.Gateway, Progress: progress,
	}
	var kept bool
	if p.command.Keep {
		config.After = func(res demo.Result) error {
			kept = true
			return errors.Join(write(res), keep(r))
		}
	}
	res, err := watched(r, listener, config)
	var dropErr error
	if drop != nil {
		dropErr = drop()
	}
	if err == nil && !kept {
		err = context.Cause(r.Context) // the signal came last but still counts
	}
	if err != nil || kept {
		return errors.Join(err, dropErr)
	}
	return errors.Join(dropErr, write(res))
}

// listen opens the web console's listener; nil: there is no console.
func (p Plan) listen() (net.Listener, error) {
	if p.admin == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", p.admin)
	if err != nil {
		return nil, fmt.Errorf("open the web console: %w", err)
	}
	return l, nil
}

// watched runs the demo, with its web console if there is a listener.
func watched(r *command.Run, listener net.Listener, config demo.Config) (demo.Result, error) {
	if listener == nil {
		return demo.Run(r.Context, config)
	}
	config.Board = demo.NewBoard()
	console, err := demo.OpenConsole(listener, config.Board)
	if err != nil {
		return demo.Result{}, fmt.Errorf("open the web console: %w", err)
	}
	fmt.Fprintln(r.Stderr, "web console: "+console.URL)
	res, err := demo.Run(r.Context, config)
	return res, errors.Join(err, console.Close())
}

// keep waits for the signal that ends the last level.
func keep(r *command.Run) error {
	if context.Cause(r.Context) != nil {
		return nil
	}
	fmt.Fprintln(r.Stderr, "the last level continues under a light load: see the web console; Ctrl-C ends it")
	<-r.Context.Done()
	return nil
}

// write writes the report to standard output.
func (p Plan) write(r *command.Run, rep *report.Report) error {
	if p.command.JSON {
		return rep.JSON(r.Stdout)
	}
	return rep.Table(r.Stdout, report.Style{
		Width: terminal.Width(r.Stdout),
		Color: terminal.Color(r.Stdout, r.Getenv),
	})
}

func (p Plan) report(target Target, started time.Time, work string, res demo.Result) *report.Report {
	rep := &report.Report{
		Source:    target.Name,
		Work:      work,
		CallMS:    float64(res.Call) / float64(time.Millisecond),
		Gateway:   p.command.Gateway,
		Clients:   p.clients,
		Keys:      p.Keys,
		Skew:      demo.Skew,
		Rows:      target.Rows,
		LevelS:    p.duration.Seconds(),
		TTLS:      demo.TTL.Seconds(),
		Seed:      seed,
		StartedAt: started,
		Machine:   report.ThisMachine(),
		Levels:    res.Levels,
	}
	rep.SetRatios()
	return rep
}
