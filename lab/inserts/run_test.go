package inserts_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/lab/inserts"
	"github.com/weir-go/weir/lab/internal/pgtest"
)

// A short run of all ways works, counts correctly and finds no faults in the table.
// It says nothing about speed.
func TestRun(t *testing.T) {
	var progress bytes.Buffer
	rep, err := inserts.Run(t.Context(), inserts.Config{
		URL:         pgtest.Schema(t),
		Callers:     []int{2, 12},
		Duration:    50 * time.Millisecond,
		Rounds:      2,
		Connections: 4,
		Progress:    terminal.NewProgress(&progress, false, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Measurements) != 8 {
		t.Fatalf("%d measurements; want 4 ways with 2 numbers of callers", len(rep.Measurements))
	}
	for _, m := range rep.Measurements {
		gathers := m.Way == "batch" || m.Way == "copy"
		if m.Rows == 0 || m.Failures != 0 || m.Check.Stored < m.Rows || m.P99MS < m.P50MS || m.SlowestMS < m.P99MS {
			t.Errorf("%+v", m)
		}
		if !gathers && m.Statements != m.Rows || gathers && m.Callers == 12 && m.Statements >= m.Rows {
			t.Errorf("%s: %d statements for %d rows", m.Way, m.Statements, m.Rows)
		}
		if m.Way == "pool" && m.ToPool != 1 {
			t.Errorf("pool is %v of itself", m.ToPool)
		}
	}
	if n := strings.Count(progress.String(), "\n"); n != 16 {
		t.Errorf("%d lines of progress; want 16:\n%s", n, &progress)
	}
}

func TestRunSaysWhatIsMissing(t *testing.T) {
	url := pgtest.Schema(t)
	_, err := inserts.Run(t.Context(), inserts.Config{URL: url, Callers: []int{900}, Duration: time.Second})
	if err == nil || !strings.Contains(err.Error(), "901 are needed") {
		t.Errorf("Run with 900 callers = %v; want an error that the server accepts fewer", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	if rep, err := inserts.Run(ctx, inserts.Config{URL: url}); rep != nil || err == nil {
		t.Errorf("Run of an ended context = %v, %v; want nil and an error", rep, err)
	}
}

func TestReport(t *testing.T) {
	rep := &inserts.Report{
		Server: "15.1", Fsync: "on", SyncCommit: "on", CommitMS: 0.5, DurationS: 5, Connections: 16, Rounds: 3, MaxSize: 256, MaxParallel: 2,
		Measurements: []inserts.Measurement{
			{Way: "pool", Callers: 12, Rows: 1000, PerSecond: 200, P50MS: 1, P99MS: 2, SlowestMS: 3, Statements: 1000, ToPool: 1,
				Check: inserts.Verdict{Stored: 1000}},
			{Way: "batch", Callers: 256, Rows: 9000, PerSecond: 1800, P50MS: 1, P99MS: 2, SlowestMS: 3, Statements: 90, ToPool: 9,
				Failures: 2, Check: inserts.Verdict{Stored: 9000, Unknown: 2, UnknownStored: 1}},
		},
	}
	var table, object bytes.Buffer
	if err := rep.Table(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"5 s each, the median of 3. Pool of 16 connections; batches of up to 256 rows, 2 at a time.\n",
		"  callers    way  rows/s  p50 ms  p99 ms  max ms  statements  rows each  × single  × pool\n",
		"       12   pool     200    1.00    2.00     3.0        1000        1.0         -    1.00\n",
		"      256  batch    1800    1.00    2.00     3.0          90      100.0         -    9.00\n",
		"Of 10000 acknowledged rows 0 are lost, 0 duplicated, 0 wrong. 2 inserts failed; of 2 the outcome is unknown, and 1 of those are stored.\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no line %q in\n%s", want, &table)
		}
	}
	if err := rep.JSON(&object); err != nil {
		t.Fatal(err)
	}
	var back inserts.Report
	if err := json.Unmarshal(object.Bytes(), &back); err != nil || back.Measurements[1] != rep.Measurements[1] {
		t.Errorf("the JSON reads back as %+v, %v", back, err)
	}
}
