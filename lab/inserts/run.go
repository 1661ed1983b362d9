package inserts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-go/weir/app/load"
	"github.com/weir-go/weir/app/terminal"
)

// The defaults of a Config.
const (
	DefaultDuration    = 5 * time.Second
	DefaultConnections = 16
)

// DefaultCallers are the numbers of callers that Run measures by default.
var DefaultCallers = []int{12, 32, 64, 128, 256}

const (
	// warmUp is how long callers insert before the measurement, at most as long as
	// the measurement itself.
	warmUp = 300 * time.Millisecond

	// insertTimeout is how long a caller waits for its insert.
	insertTimeout = 10 * time.Second

	// serial is the number of commits that are timed one after another.
	serial = 50
)

// A Config configures Run.
type Config struct {
	URL         string             // of PostgreSQL; its table orders is replaced
	Callers     []int              // nil: DefaultCallers
	Duration    time.Duration      // of each way for each number of callers; 0: DefaultDuration
	Rounds      int                // of all ways, one way after another, for their medians; 0: 1
	Connections int                // of the pool; 0: DefaultConnections
	Progress    *terminal.Progress // nil shows nothing
}

// connections returns how many connections a server must accept for c.
func (c Config) connections() int {
	most := c.Connections
	for _, n := range c.Callers {
		most = max(most, n)
	}
	return most
}

// Run measures every way with every number of callers, each on an empty table, and
// compares the table afterwards. If that finds a fault, Run continues and returns the
// report with the error.
func Run(ctx context.Context, c Config) (*Report, error) {
	c = c.withDefaults()
	rep := newReport(c)
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return nil, fmt.Errorf("inserts: connect: %w", err)
	}
	defer closeConn(conn)
	if err := rep.server(ctx, conn, c); err != nil {
		return nil, err
	}
	var faults []error
	for _, callers := range c.Callers {
		rounds := make([][]Measurement, len(ways))
		for range c.Rounds {
			for i, w := range ways {
				m, err := c.measure(ctx, conn, w, callers)
				if err != nil {
					return nil, fmt.Errorf("inserts: %s with %d callers: %w", w.name, callers, err)
				}
				if err := m.Check.Err(); err != nil {
					faults = append(faults, fmt.Errorf("%s with %d callers: %w", w.name, callers, err))
				}
				rounds[i] = append(rounds[i], m)
			}
		}
		for _, r := range rounds {
			rep.Measurements = append(rep.Measurements, median(r))
		}
	}
	rep.setRatios()
	return rep, errors.Join(faults...)
}

func (c Config) withDefaults() Config {
	if c.Callers == nil {
		c.Callers = DefaultCallers
	}
	if c.Duration == 0 {
		c.Duration = DefaultDuration
	}
	c.Rounds = max(c.Rounds, 1)
	if c.Connections == 0 {
		c.Connections = DefaultConnections
	}
	if c.Progress == nil {
		c.Progress = terminal.NewProgress(io.Discard, false, 0)
	}
	return c
}

// measure measures one way.
func (c Config) measure(ctx context.Context, conn *pgx.Conn, w way, callers int) (Measurement, error) {
	if err := Create(ctx, conn); err != nil {
		return Measurement{}, err
	}
	// Otherwise the server might run a checkpoint in the middle of the measurement.
	if _, err := conn.Exec(ctx, "CHECKPOINT"); err != nil {
		return Measurement{}, err
	}
	var statements atomic.Int64
	in, err := w.open(ctx, setup{url: c.URL, callers: callers, connections: c.Connections, statements: &statements})
	if err != nil {
		return Measurement{}, err
	}
	ledger := NewLedger(callers)
	var ids atomic.Int64
	do := func(ctx context.Context, caller int) error {
		ctx, cancel := context.WithTimeout(ctx, insertTimeout)
		defer cancel()
		id := ids.Add(1)
		number, err := in.insert(ctx, caller, NewOrder(id))
		ledger.Tell(caller, id, number, OutcomeOf(ctx, err))
		return err
	}
	res, err := c.loop(ctx, w, callers, &statements, do)
	in.close()
	if err != nil {
		return Measurement{}, err
	}
	check, err := ledger.Compare(ctx, conn)
	if err != nil {
		return Measurement{}, err
	}
	m := newMeasurement(w.name, callers, res, statements.Load(), check)
	c.Progress.Done(fmt.Sprintf("%.0f rows/s, p99 %.1f ms", m.PerSecond, m.P99MS))
	return m, nil
}

// loop lets the callers insert, first without counting.
func (c Config) loop(ctx context.Context, w way, callers int, statements *atomic.Int64, do load.Func) (load.Result, error) {
	loop := load.New(callers, c.Duration, do)
	c.Progress.Start(fmt.Sprintf("%d callers, %s", callers, w.name), func() string {
		return fmt.Sprintf("%d rows", loop.Answered())
	})
	if _, err := load.New(callers, min(warmUp, c.Duration), do).Run(ctx); err != nil {
		return load.Result{}, err
	}
	statements.Store(0)
	return loop.Run(ctx)
}
