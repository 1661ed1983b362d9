package weirredis_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/fleet/fleettest"
)

var update = flag.Bool("update", false, "write the suite's measurements into docs/explain/fleet.md")

// tablePage contains the table of failures, between two comments.
const (
	tablePage  = "../../docs/explain/fleet.md"
	tableBegin = "<!-- failures: go test ./adapter/weirredis -run 'TestFleet|TestFailureTable' -update -->\n"
	tableEnd   = "<!-- /failures -->\n"
)

// measured holds the measurements of the suite's rows, by engine.
var measured = struct {
	sync.Mutex
	rows map[string]map[string]fleettest.Measured
}{rows: map[string]map[string]fleettest.Measured{}}

func note(engine string, m fleettest.Measured) {
	measured.Lock()
	defer measured.Unlock()
	if measured.rows[engine] == nil {
		measured.rows[engine] = map[string]fleettest.Measured{}
	}
	measured.rows[engine][m.Row] = m
}

// The page's table has the suite's rows with their bounds. Its figures are those of
// the run that wrote it. This test runs after the suite.
func TestFailureTable(t *testing.T) {
	page, err := os.ReadFile(tablePage)
	if err != nil {
		t.Skip("no docs/explain/fleet.md: the module is used outside the repository")
	}
	head, rest, ok := strings.Cut(string(page), tableBegin)
	old, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", tablePage)
	}
	measured.Lock()
	defer measured.Unlock()
	one, cluster := measured.rows["one"], measured.rows["cluster"]
	if *update {
		if len(one) == 0 || len(cluster) == 0 {
			t.Fatal("-update needs the suite's tests in the same run")
		}
		text := head + tableBegin + table(one, cluster) + tableEnd + tail
		if err := os.WriteFile(tablePage, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, m := range one {
		if want := fmt.Sprintf("| %s | %s |", m.Failure, m.Bound); !strings.Contains(old, want) {
			t.Errorf("%s has no row %q; run with -update", tablePage, want)
		}
	}
}

func table(one, cluster map[string]fleettest.Measured) string {
	var b strings.Builder
	b.WriteString("| Failure | Bound | Loads, one server | Longest wait | Loads, Cluster | Longest wait |\n|---|---|---|---|---|---|\n")
	for _, name := range fleettest.Rows() {
		m := one[name]
		fmt.Fprintf(&b, "| %s | %s |%s|%s|\n", m.Failure, m.Bound, figures(m), figures(cluster[name]))
	}
	return b.String()
}

// figures returns the measurements with their bounds.
func figures(m fleettest.Measured) string {
	if m.NotRun != "" {
		return " – | – "
	}
	ms := func(d time.Duration) string { return fmt.Sprint(d.Round(time.Millisecond)) }
	return fmt.Sprintf(" %d of at most %d | %s of %s ", m.Loads, m.MostLoads, ms(m.Longest), ms(m.Limit))
}
