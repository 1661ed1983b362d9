package promises

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var markdown = flag.String("promises.md", "", "write the table to this `file`")

// The stories, in the order of the table.
var stories = []story{
	{name: "leader-leaves", tell: leaderLeaves,
		promise: "The first caller hangs up: its nine followers get the value, from one load",
		kept:    "weir, weir/flight, x/sync DoChan, resenje"},
	{name: "own-deadline", tell: ownDeadline,
		promise: "Every caller leaves at its own deadline, first or not, whatever the load does",
		kept:    "weir, weir/flight, x/sync DoChan, resenje"},
	{name: "late-caller", tell: lateCaller,
		promise: "A caller who comes while an abandoned load is slow to stop gets a value, not another's cancellation",
		kept:    "weir, weir/flight, x/sync DoChan, resenje, otter"},
	{name: "abandoned", tell: abandoned,
		promise: "A load that nobody waits for any more is canceled",
		kept:    "weir, weir/flight, x/sync Do, resenje, otter, sturdyc"},
	{name: "no-zombie", tell: noZombie, spins: true,
		promise: "64 callers in a loop on a load of 2 ms: no result is older than its caller",
		kept:    "weir, weir/flight, x/sync Do, x/sync DoChan, otter"},
	{name: "panic", tell: panics,
		promise: "The load panics: every caller gets an error, the process lives, the key is free",
		kept:    "weir, weir/flight, sturdyc"},
	{name: "goexit", tell: goexits,
		promise: "The load calls runtime.Goexit: every caller gets an error, the key is free",
		kept:    "weir, weir/flight"},
	{name: "no-false-success", tell: noFalseSuccess,
		promise: "After a panic or Goexit nobody gets a zero value with a nil error",
		kept:    "weir, weir/flight, x/sync Do, otter"},
	{name: "hung-load", tell: hungLoad,
		promise: "A load that hangs does not wedge its key: the next caller, a minute later, gets a value",
		kept:    "weir, weir/flight, resenje"},
	{name: "shared-failure", tell: sharedFailure,
		promise: "A load of 300 ms fails: ten callers know after 300 ms, from one load",
		kept:    "weir, weir/flight, x/sync Do, x/sync DoChan, resenje, otter, sturdyc"},
	{name: "nested-load", tell: nestedLoad,
		promise: "A load that asks for its own key gets an error, not a deadlock",
		kept:    "weir, weir/flight"},
	{name: "struct-keys", tell: structKeys,
		promise: "Struct keys whose printed forms are the same are different keys",
		kept:    "weir, weir/flight, resenje, otter"},
	{name: "delete-absent", tell: deleteAbsent,
		promise: "Deleted during its first load: the old value does not come back",
		kept:    "weir, weir/flight, x/sync Do, x/sync DoChan, resenje, otter"},
	{name: "delete-present", tell: deletePresent,
		promise: "Deleted during a refresh: the old value does not come back",
		kept:    "weir, otter"},
	{name: "storm-one-key", tell: stormOneKey,
		promise: "1,000 hits on a stale value start one refresh, and no goroutine waits for it",
		kept:    "weir, otter, sturdyc"},
	{name: "storm-many-keys", tell: stormManyKeys,
		promise: "1,000 stale values are hit at once: at most 64 refreshes run",
		kept:    "weir"},
}

// cellVar names the story and the library that this process is to tell, in a
// process that TestPromises has started.
const cellVar = "WEIR_PROMISES_CELL"

const verdictMark = "verdict: "

func TestPromises(t *testing.T) {
	if cell := os.Getenv(cellVar); cell != "" {
		tellCell(t, cell)
	}
	rows := make([][]verdict, len(stories))
	for i, s := range stories {
		t.Run(s.name, func(t *testing.T) {
			var keepers []string
			for _, l := range libraries {
				v := watch(t, s, l)
				rows[i] = append(rows[i], v)
				if v.Kept {
					keepers = append(keepers, l.name)
				}
				if ours := strings.HasPrefix(l.name, "weir"); ours && !v.Kept && !v.NA {
					t.Errorf("%s breaks its promise %q: %s", l.name, s.promise, v.Notes)
				}
			}
			if got := strings.Join(keepers, ", "); got != s.kept {
				t.Logf("kept by %s; on record is %s", got, s.kept)
			}
		})
	}
	table, complete := render(rows)
	t.Log("\n" + table)
	if *markdown != "" {
		if !complete || t.Failed() {
			t.Fatal("the table is not written: it is not complete, or weir breaks a promise")
		}
		if err := os.WriteFile(*markdown, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// watch has a process of its own tell s to l.
func watch(t *testing.T, s story, l library) verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestPromises$")
	cmd.Env = append(os.Environ(), cellVar+"="+s.name+" "+l.name,
		"GORACE=atexit_sleep_ms=0") // or the race detector makes each wait for a second
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, verdictMark); ok {
			var v verdict
			if err := json.Unmarshal([]byte(rest), &v); err != nil {
				t.Fatalf("%s, %s: %v in %q", s.name, l.name, err, line)
			}
			if strings.Contains(string(out), "WARNING: DATA RACE") {
				t.Logf("%s, %s:\n%s", s.name, l.name, out)
				return broken("data race")
			}
			return v
		}
	}
	switch text := string(out); {
	case ctx.Err() != nil:
		return broken("hangs")
	case strings.Contains(text, "deadlock: "):
		return broken("hangs")
	case strings.Contains(text, "panic: boom"), strings.Contains(text, "\nboom\n"):
		return broken("kills the process")
	}
	t.Fatalf("%s, %s: %v, and no verdict in:\n%s", s.name, l.name, err, out)
	return verdict{}
}

// tellCell tells the cell's story, prints the verdict and ends the process, so
// that nothing waits for goroutines that the library has left behind.
func tellCell(t *testing.T, cell string) {
	s, l, err := find(cell)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(*testing.T) {
		line, err := json.Marshal(s.tell(l))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s%s\n", verdictMark, line)
		os.Exit(0)
	}
	if s.spins && l.expires {
		tell(t)
	}
	synctest.Test(t, tell)
}

func find(cell string) (s story, l library, err error) {
	row, column, _ := strings.Cut(cell, " ")
	for _, s = range stories {
		for _, l = range libraries {
			if s.name == row && l.name == column {
				return s, l, nil
			}
		}
	}
	return s, l, errors.New("promises: no cell " + cell)
}

// render returns the finished rows as a markdown table, and whether
// that is all of them.
func render(rows [][]verdict) (table string, complete bool) {
	complete = true
	var b strings.Builder
	b.WriteString("| Promise |")
	for _, l := range libraries {
		b.WriteString(" " + l.name + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(libraries)) + "\n")
	for i, row := range rows {
		if len(row) == 0 {
			complete = false
			continue
		}
		b.WriteString("| " + stories[i].promise + " |")
		for _, v := range row {
			b.WriteString(" " + v.cell() + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\nHow each is used:\n\n")
	for _, l := range libraries {
		b.WriteString("- " + l.name + ": " + l.use + "\n")
	}
	return b.String(), complete
}

func (v verdict) cell() string {
	switch {
	case v.NA:
		return "n/a: " + v.Notes
	case v.Kept:
		return "keeps"
	}
	return "**breaks**: " + strings.ReplaceAll(v.Notes, "|", `\|`)
}
