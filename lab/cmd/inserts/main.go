// Command inserts measures single inserts into PostgreSQL: as single
// statements, through a pool, and gathered into batches.
//
//	go run ./lab/cmd/inserts [--callers 12,32,64,128,256] [--seconds 5] [--rounds 1] [--connections 16] [--json]
//
// It starts a disposable PostgreSQL that flushes its log before it acknowledges a
// commit, like a production server, and stops it at the end. It exits with 1 if a row
// was lost or duplicated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/inserts"
	"github.com/weir-go/weir/lab/internal/proc"
)

func main() {
	proc.DieWithParent()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "inserts:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("wrong usage") // flags has printed the error

func run(ctx context.Context, args []string, stdout io.Writer) error {
	c := inserts.Config{Callers: inserts.DefaultCallers}
	flags := flag.NewFlagSet("inserts", flag.ContinueOnError)
	flags.Func("callers", "numbers of concurrent callers, comma-separated (default "+join(c.Callers)+")", func(s string) (err error) {
		c.Callers, err = numbers(s)
		return err
	})
	seconds := flags.Float64("seconds", inserts.DefaultDuration.Seconds(), "how long each measurement takes")
	flags.IntVar(&c.Rounds, "rounds", 1, "measure every way this many times, in turn, and report the median")
	flags.IntVar(&c.Connections, "connections", inserts.DefaultConnections, "connections of the pool")
	asJSON := flags.Bool("json", false, "write JSON instead of a table")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return errUsage
	}
	if flags.NArg() > 0 || !(*seconds >= 0.1 && *seconds <= 3600) || c.Rounds < 1 || c.Rounds > most || c.Connections < 1 || c.Connections > most {
		fmt.Fprintf(os.Stderr, "inserts: want 0.1 to 3600 seconds, 1 to %d rounds and connections, and no arguments\n", most)
		return errUsage
	}
	c.Duration = time.Duration(*seconds * float64(time.Second))
	return measure(ctx, c, *asJSON, stdout)
}

// measure starts the server, runs, and writes the report.
func measure(ctx context.Context, c inserts.Config, asJSON bool, stdout io.Writer) (err error) {
	c.Progress = terminal.NewProgress(os.Stderr, terminal.Is(os.Stderr, os.Getenv), terminal.Width(os.Stderr))
	defer c.Progress.Close()
	c.Progress.Start("starting PostgreSQL", func() string { return "" })
	pg, err := engine.Postgres(ctx, engine.PostgresOptions{
		Durable:  true,
		Settings: map[string]string{"max_connections": strconv.Itoa(most + 20), "max_wal_size": "8GB"},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pg.Stop()) }()

	c.URL = pg.URL
	rep, err := inserts.Run(ctx, c)
	c.Progress.Close()
	if rep == nil {
		return err
	}
	write := rep.Table
	if asJSON {
		write = rep.JSON
	}
	return errors.Join(write(stdout), err)
}

// most bounds the callers and the connections: each may be a process of the server.
const most = 1000

func numbers(list string) ([]int, error) {
	var out []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > most {
			return nil, fmt.Errorf("%q is not a number from 1 to %d", s, most)
		}
		out = append(out, n)
	}
	return out, nil
}

func join(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}
