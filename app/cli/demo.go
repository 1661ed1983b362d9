package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/demo"
	"github.com/weir-go/weir/app/demo/pgtable"
	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/app/demo/tile"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/report"
	"github.com/weir-go/weir/app/terminal"
)

// Bounds of the demo's flags. A level needs a few requests and must end; each client uses
// two file descriptors; each key's response is computed beforehand.
var (
	durationSpan = command.Span[time.Duration]{Least: 500 * time.Millisecond, Most: 10 * time.Minute}
	clientSpan   = command.Span[int]{Least: 1, Most: 10_000}
	keySpan      = command.Span[int]{Least: 1, Most: 4096}
	rowSpan      = command.Span[int]{Least: 1000, Most: 100_000_000}
)

// seed is the seed for the order of the keys.
const seed = 1

// bounds are the variables in the flags' help.
var bounds = map[string]string{
	"durations":  command.Durations(durationSpan),
	"checktimes": command.Durations(checkSpan),
	"clients":    command.Numbers(clientSpan),
	"keys":       command.Numbers(keySpan),
	"rows":       command.Numbers(rowSpan),
	"intervals":  command.Durations(topSpan),
	"limits":     command.Numbers(limitSpan),
	"states":     jobsctl.Words(jobsctl.AllStates(), "or"),
	"minid":      strconv.Itoa(jobsctl.MinID),
}

// demoCmd is weir demo.
type demoCmd struct {
	Duration string  `default:"4s" placeholder:"TIME" help:"How long each of the five levels runs (${durations})."`
	Clients  string  `default:"100" placeholder:"N" help:"Clients, each of which sends its next request as soon as it has a response (${clients})."`
	Keys     string  `default:"32" placeholder:"N" help:"Different responses, some requested far more often than others (${keys})."`
	Postgres *string `placeholder:"URL" help:"Aggregate a table in this PostgreSQL, postgres://user:password@host:port/database, instead of rendering. The password may come from PGPASSWORD."`
	Rows     string  `default:"1000000" placeholder:"N" help:"Rows of that table, which is generated in its own schema and dropped at the end (${rows})."`
	Gateway  bool    `help:"Protect the service from outside, with weir's gateway in front of it, instead of with a Guard in its code."`
	Admin    string  `default:"127.0.0.1:0" placeholder:"ADDRESS" help:"Where to serve the web console during the demo: host:port on loopback, because there is no login; port 0 picks a free port, off disables the console."`
	Keep     bool    `help:"After the report, keep the console and the last level running under a light load until an interrupt."`
	JSON     bool    `name:"json" help:"Write one JSON object, with an array of levels in it, to standard output."`
}

// Help is the longer part of weir demo --help.
func (demoCmd) Help() string {
	return fmt.Sprintf(`A small HTTP service, on a loopback port, renders a map tile for every request: some tens of milliseconds of pure computing. Clients request tiles as fast as they receive them, and every response is checked. This runs five times, each time from a cold start and with one more level of protection: unprotected, coalescing, + cache (%v), + refresh-ahead, + admission.

You can watch the levels in a web console; its address is the first line on standard error. With --keep the console and the last level stay after the report, until Ctrl-C or SIGTERM.

Keys follow a Zipf law with exponent %v, as most traffic does: a few keys get most of the requests.

Examples:

    weir demo                              # half a minute
    weir demo --clients 500 --duration 10s
    weir demo --gateway                    # the same, with no change to the service
    weir demo --keep --admin 127.0.0.1:9090
    weir demo --json | jq '.levels[] | {name, requests_per_s}'
    weir demo --postgres postgres://me@localhost/mydb

Exit code: 0 success, with --keep also after the interrupt that ends it; 1 failed or interrupted; 2 wrong usage.`, demo.TTL, demo.Skew)
}

// A demoPlan is a parsed command line of weir demo.
type demoPlan struct {
	duration            time.Duration
	clients, keys, rows int
	server              *pgtable.Server // nil: render tiles
	admin               string          // empty: no console
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
		return "an address on loopback such as 127.0.0.1:" + port + ": the console of a demo asks nobody for a token"
	}
	return ""
}

// plan parses the flags and reports everything that is wrong with them.
func (c *demoCmd) plan() (demoPlan, error) {
	var f command.Faults
	p := demoPlan{
		duration: f.Duration("duration", c.Duration, durationSpan),
		clients:  f.Number("clients", c.Clients, clientSpan),
		keys:     f.Number("keys", c.Keys, keySpan),
		rows:     f.Number("rows", c.Rows, rowSpan),
	}
	if p.rows > 0 && p.rows < p.keys {
		f.Add("rows", c.Rows, fmt.Sprintf("at least one for each of the %d keys", p.keys))
	}
	if c.Postgres != nil {
		server, err := pgtable.Parse(*c.Postgres)
		if err != nil {
			// Without the value, which may hold a password.
			f = append(f, fmt.Errorf("--postgres: %w", err))
		}
		p.server = &server
	}
	if c.Admin != noAdmin {
		p.admin = c.Admin
		if why := notLoopback(c.Admin); why != "" {
			f.Add("admin", c.Admin, why)
		}
	} else if c.Keep {
		f.Add("keep", "true", "an --admin that is not off: without a console there is nothing to see")
	}
	if len(f) > 0 {
		return demoPlan{}, &command.UsageError{Command: "weir demo", Faults: f}
	}
	return p, nil
}

// Run runs the command. It writes the report last, after cleaning up, or with --keep before
// that.
func (c *demoCmd) Run(r *command.Run) error {
	p, err := c.plan()
	if err != nil {
		return err
	}
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
	src, work, drop, err := p.source(r, progress)
	if err != nil {
		return err
	}
	report := func(res demo.Result) error {
		progress.Close()
		return c.write(r, p.report(c.Gateway, started, work, res))
	}
	config := demo.Config{
		Source: src, Clients: p.clients, Keys: p.keys, Duration: p.duration, Seed: seed,
		Gateway: c.Gateway, Progress: progress,
	}
	var kept bool
	if c.Keep {
		config.After = func(res demo.Result) error {
			kept = true
			return errors.Join(report(res), keep(r))
		}
	}
	res, err := watched(r, listener, config)
	dropErr := drop()
	if err == nil && !kept {
		err = context.Cause(r.Context) // the signal came last but still counts
	}
	if err != nil || kept {
		return errors.Join(err, dropErr)
	}
	return errors.Join(dropErr, report(res))
}

// listen opens the web console's listener; nil: there is no console.
func (p demoPlan) listen() (net.Listener, error) {
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
func (c *demoCmd) write(r *command.Run, rep *report.Report) error {
	if c.JSON {
		return rep.JSON(r.Stdout)
	}
	return rep.Table(r.Stdout, report.Style{
		Width: terminal.Width(r.Stdout),
		Color: terminal.Color(r.Stdout, r.Getenv),
	})
}

// source creates what the demo calls: the renderer, or a table. Drop removes what was
// created for it.
func (p demoPlan) source(r *command.Run, progress *terminal.Progress) (_ source.Source, work string, drop func() error, err error) {
	if p.server == nil {
		return tile.Source{}, fmt.Sprintf("a map tile of %d × %d pixels rendered as PNG", tile.Size, tile.Size),
			func() error { return nil }, nil
	}
	var written atomic.Int64 // an atomic, as the progress is drawn by another goroutine
	progress.Start("writing the table", func() string { return fmt.Sprintf("%d of %d rows", written.Load(), p.rows) })
	table, err := pgtable.Create(r.Context, *p.server, pgtable.Options{
		Rows:     p.rows,
		Keys:     p.keys,
		Created:  func(schema string) { r.Leaves("schema " + schema) },
		Progress: func(done int) { written.Store(int64(done)) },
	})
	if err != nil {
		return nil, "", nil, err
	}
	progress.Done(fmt.Sprintf("%d rows in schema %s, which is dropped at the end", p.rows, table.Schema()))
	return table, fmt.Sprintf("an aggregate over a shop's share of %d orders in PostgreSQL", p.rows), func() error {
		progress.Start("dropping schema "+table.Schema(), func() string { return "" })
		// An interrupt does not stop this cleanup: it waits for it.
		if err := table.Drop(context.WithoutCancel(r.Context)); err != nil {
			return err
		}
		progress.Done("done")
		r.Leaves("")
		return nil
	}, nil
}

func (p demoPlan) report(gateway bool, started time.Time, work string, res demo.Result) *report.Report {
	rep := &report.Report{
		Source:    "tile",
		Work:      work,
		CallMS:    float64(res.Call) / float64(time.Millisecond),
		Gateway:   gateway,
		Clients:   p.clients,
		Keys:      p.keys,
		Skew:      demo.Skew,
		LevelS:    p.duration.Seconds(),
		TTLS:      demo.TTL.Seconds(),
		Seed:      seed,
		StartedAt: started,
		Machine:   report.ThisMachine(),
		Levels:    res.Levels,
	}
	if p.server != nil {
		rep.Source, rep.Rows = "postgres", p.rows
	}
	rep.SetRatios()
	return rep
}
