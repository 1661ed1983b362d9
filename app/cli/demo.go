package cli

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"

	"github.com/weir-go/weir/app/command"
	"github.com/weir-go/weir/app/demo/pgtable"
	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/app/democli"
	"github.com/weir-go/weir/app/jobsctl"
	"github.com/weir-go/weir/app/terminal"
)

// rowSpan bounds the rows of the demo's table.
var rowSpan = command.Span[int]{Least: 1000, Most: 100_000_000}

// bounds returns the variables in the flags' help.
func bounds() map[string]string {
	all := map[string]string{
		"checktimes": command.Durations(checkSpan),
		"rows":       command.Numbers(rowSpan),
		"intervals":  command.Durations(topSpan),
		"limits":     command.Numbers(limitSpan),
		"states":     jobsctl.Words(jobsctl.AllStates(), "or"),
		"minid":      strconv.Itoa(jobsctl.MinID),
	}
	maps.Copy(all, democli.Vars())
	return all
}

// demoCmd is weir demo: weir-demo, and PostgreSQL as a source.
type demoCmd struct {
	democli.Command
	Postgres *string `placeholder:"URL" help:"Aggregate a table in this PostgreSQL, postgres://user:password@host:port/database, instead of rendering. The password may come from PGPASSWORD."`
	Rows     string  `default:"1000000" placeholder:"N" help:"Rows of that table, which is generated in its own schema and dropped at the end (${rows})."`
}

// Run runs the command.
func (c *demoCmd) Run(r *command.Run) error {
	var f command.Faults
	p := c.Plan(&f)
	target := democli.Tiles()
	rows := f.Number("rows", c.Rows, rowSpan)
	if rows > 0 && rows < p.Keys {
		f.Add("rows", c.Rows, fmt.Sprintf("at least one for each of the %d keys", p.Keys))
	}
	if c.Postgres != nil {
		server, err := pgtable.Parse(*c.Postgres)
		if err != nil {
			// Without the value, which may hold a password.
			f = append(f, fmt.Errorf("--postgres: %w", err))
		}
		target = table(server, rows, p.Keys)
	}
	if len(f) > 0 {
		return &command.UsageError{Command: r.Command, Faults: f}
	}
	return p.Run(r, target)
}

// table returns the demo's target that aggregates a table, which it creates and drops.
func table(server pgtable.Server, rows, keys int) democli.Target {
	open := func(r *command.Run, progress *terminal.Progress) (_ source.Source, work string, drop func() error, err error) {
		var written atomic.Int64 // an atomic, as the progress is drawn by another goroutine
		progress.Start("writing the table", func() string { return fmt.Sprintf("%d of %d rows", written.Load(), rows) })
		table, err := pgtable.Create(r.Context, server, pgtable.Options{
			Rows:     rows,
			Keys:     keys,
			Created:  func(schema string) { r.Leaves("schema " + schema) },
			Progress: func(done int) { written.Store(int64(done)) },
		})
		if err != nil {
			return nil, "", nil, err
		}
		progress.Done(fmt.Sprintf("%d rows in schema %s, which is dropped at the end", rows, table.Schema()))
		return table, fmt.Sprintf("an aggregate over a shop's share of %d orders in PostgreSQL", rows), func() error {
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
	return democli.Target{Name: "postgres", Rows: rows, Open: open}
}
