package inserts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-go/weir/app/load"
	"github.com/weir-go/weir/app/report"
)

// A Report is one run of all ways. Units are in the JSON names.
type Report struct {
	StartedAt    time.Time      `json:"started_at"` // UTC
	Machine      report.Machine `json:"machine"`
	Server       string         `json:"server"`         // version
	Fsync        string         `json:"fsync"`          // the server's setting; a run with "off" proves little
	SyncCommit   string         `json:"sync_commit"`    // synchronous_commit, likewise
	CommitMS     float64        `json:"commit_ms"`      // mean time of an insert without other load
	DurationS    float64        `json:"duration_s"`     // of each measurement
	Rounds       int            `json:"rounds"`         // each measurement is their median, by rows/s
	Connections  int            `json:"connections"`    // of the pool
	MaxSize      int            `json:"batch_size"`     // largest number of rows in a batch
	MaxParallel  int            `json:"batch_parallel"` // largest number of concurrent batches
	Measurements []Measurement  `json:"measurements"`
}

// A Measurement is the result of one way with a number of callers. Times are those of
// acknowledged inserts.
type Measurement struct {
	Way          string  `json:"way"`
	Callers      int     `json:"callers"`
	Rows         int64   `json:"rows"` // acknowledged
	PerSecond    float64 `json:"rows_per_s"`
	P50MS        float64 `json:"p50_ms"`     // three significant digits
	P99MS        float64 `json:"p99_ms"`     // three significant digits
	SlowestMS    float64 `json:"slowest_ms"` // exact
	Statements   int64   `json:"statements"` // sent to the server
	Failures     int64   `json:"failures"`   // inserts without an acknowledgement
	FirstFailure string  `json:"first_failure,omitempty"`
	ToSingle     float64 `json:"ratio_to_single"` // rows/s divided by those of way single with as many callers
	ToPool       float64 `json:"ratio_to_pool"`   // likewise, way pool
	Check        Verdict `json:"check"`           // of all rounds, warm-up included
}

func newReport(c Config) *Report {
	return &Report{
		StartedAt:   time.Now().UTC(),
		Machine:     report.ThisMachine(),
		DurationS:   c.Duration.Seconds(),
		Rounds:      c.Rounds,
		Connections: c.Connections,
		MaxSize:     Batching.MaxSize,
		MaxParallel: Batching.MaxParallel,
	}
}

// server describes the server, and times its commits.
func (r *Report) server(ctx context.Context, conn *pgx.Conn, c Config) error {
	var most int
	err := conn.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'),
		current_setting('synchronous_commit'), current_setting('max_connections')::int
		- current_setting('superuser_reserved_connections')::int`).Scan(&r.Server, &r.Fsync, &r.SyncCommit, &most)
	if err != nil {
		return fmt.Errorf("inserts: query the server's settings: %w", err)
	}
	if need := c.connections() + 1; most < need {
		return fmt.Errorf("inserts: the server accepts %d connections; %d are needed", most, need)
	}
	if err := Create(ctx, conn); err != nil {
		return err
	}
	start := time.Now()
	for id := range int64(serial) {
		if _, err := Insert(ctx, conn, NewOrder(id)); err != nil {
			return fmt.Errorf("inserts: time commits: %w", err)
		}
	}
	r.CommitMS = ms(time.Since(start)) / serial
	return nil
}

func newMeasurement(way string, callers int, res load.Result, statements int64, check Verdict) Measurement {
	m := Measurement{
		Way:        way,
		Callers:    callers,
		Rows:       res.Requests - res.Failures,
		P50MS:      ms(res.P50),
		P99MS:      ms(res.P99),
		SlowestMS:  ms(res.Slowest),
		Statements: statements,
		Failures:   res.Failures,
		Check:      check,
	}
	m.PerSecond = float64(m.Rows) / res.Elapsed.Seconds()
	if res.FirstFailure != nil {
		m.FirstFailure = res.FirstFailure.Error()
	}
	return m
}

// median returns the median, by rows/s, of one way's measurements in several rounds.
func median(rounds []Measurement) Measurement {
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b Measurement) int {
		return cmp.Compare(a.PerSecond, b.PerSecond)
	})
	m := sorted[(len(sorted)-1)/2]
	m.Check = Verdict{}
	for _, r := range rounds {
		m.Check.Add(r.Check)
	}
	return m
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// setRatios sets the ratios of all measurements.
func (r *Report) setRatios() {
	rate := make(map[string]float64)
	key := func(way string, callers int) string { return fmt.Sprint(way, callers) }
	for _, m := range r.Measurements {
		rate[key(m.Way, m.Callers)] = m.PerSecond
	}
	for i, m := range r.Measurements {
		if base := rate[key("single", m.Callers)]; base > 0 {
			r.Measurements[i].ToSingle = m.PerSecond / base
		}
		if base := rate[key("pool", m.Callers)]; base > 0 {
			r.Measurements[i].ToPool = m.PerSecond / base
		}
	}
}

// JSON writes r as one object and a newline.
func (r *Report) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("inserts: write JSON: %w", err)
	}
	return nil
}

// Table writes r as text.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "Single inserts into PostgreSQL %s, fsync %s, synchronous_commit %s: %.2f ms per commit without other load.\n",
		r.Server, r.Fsync, r.SyncCommit, r.CommitMS)
	fmt.Fprintf(w, "%d CPUs for callers and server, %s, %g s each, the median of %d. Pool of %d connections; batches of up to %d rows, %d at a time.\n\n",
		r.Machine.CPUs, r.Machine.Go, r.DurationS, r.Rounds, r.Connections, r.MaxSize, r.MaxParallel)

	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "callers\tway\trows/s\tp50 ms\tp99 ms\tmax ms\tstatements\trows each\t× single\t× pool\t")
	for _, m := range r.Measurements {
		fmt.Fprintf(tw, "%d\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t%d\t%.1f\t%s\t%s\t\n", m.Callers, m.Way, m.PerSecond, m.P50MS, m.P99MS,
			m.SlowestMS, m.Statements, float64(m.Rows)/float64(max(1, m.Statements)), ratio(m.ToSingle), ratio(m.ToPool))
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("inserts: write the table: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.checks())
	return err
}

func ratio(r float64) string {
	if r == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", r)
}

// checks describes the results of the comparisons of the tables.
func (r *Report) checks() string {
	var sum Verdict
	for _, m := range r.Measurements {
		sum.Add(m.Check)
	}
	return fmt.Sprintf("Of %d acknowledged rows %d are lost, %d duplicated, %d wrong. %d inserts failed; of %d the outcome is unknown, and %d of those are stored.",
		sum.Stored, sum.Lost, sum.Doubled, sum.Wrong, sum.Absent+sum.Unknown, sum.Unknown, sum.UnknownStored)
}
