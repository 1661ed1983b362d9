package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A Library is an adapter for a library whose values are strings.
type Library struct {
	// Name is used in the results. Required.
	Name string

	// Open returns the library, ready for use. It is called for each promise, with
	// the load function that the library must call. Required.
	Open func(Setup[string]) Subject[string]

	// OpenPair is Open for struct keys. Nil: the library supports string keys only.
	OpenPair func(Setup[Pair]) Subject[Pair]

	// Stores says that the library keeps values, and refreshes them in the
	// background.
	Stores bool

	// Expires says that the library cannot coalesce without keeping the value for an
	// instant. Setup.NoStore then means a very short time to live.
	Expires bool
}

// A Setup is what a promise requires of a library.
type Setup[K comparable] struct {
	// Load is the function that the library calls on a miss and for a refresh. Its
	// context is the one that the library gives its loads.
	Load func(ctx context.Context, key K) (string, error)

	// RefreshFrom is the age from which a hit starts a refresh in the background. It
	// is at least half of TTL. Zero: no refresh.
	RefreshFrom time.Duration

	// NoStore asks for coalescing only: no value is kept.
	NoStore bool
}

// TTL is the time to live of the values of a library that stores them.
const TTL = time.Hour

// A Subject is a library in use.
type Subject[K comparable] struct {
	// Get returns the value of a key, from memory or by a load. Required.
	Get func(ctx context.Context, key K) (string, error)

	// Forget removes the value of a key, and keeps later callers from getting the
	// result of a load that is in flight. Nil: the library cannot do that.
	Forget func(key K)
}

// A Pair is a struct key. Printed without quotes, {"a b", "c"} and {"a", "b c"} are the
// same.
type Pair struct{ A, B string }

// String keeps such keys distinct.
func (p Pair) String() string { return fmt.Sprintf("%q and %q", p.A, p.B) }

// A Result is the outcome of one promise.
type Result struct {
	Promise string // its name, such as "leader-leaves"
	Text    string // what is promised
	Kept    bool
	Skipped bool   // the promise does not apply; Kept is false
	Notes   string // why it is not kept, or why it does not apply
}

// Promises returns the names of all promises, in order, and what each promises.
func Promises() (names, texts []string) {
	for _, s := range stories {
		names, texts = append(names, s.name), append(texts, s.promise)
	}
	return names, texts
}

// Run checks each promise in a subtest, which fails if the library breaks it.
// Promises in except are known to be broken: their subtests fail if they are kept.
//
// Run must be called from a top-level test, because that is the test that it runs
// again in the separate processes.
func Run(t *testing.T, l Library, except ...string) {
	t.Helper()
	known := map[string]bool{}
	for _, name := range except {
		known[name] = true
	}
	for _, s := range stories {
		r := check(t, l, s)
		t.Run(r.Promise, func(t *testing.T) {
			switch {
			case r.Skipped:
				t.Skip(r.Notes)
			case !r.Kept && !known[r.Promise]:
				t.Errorf("%s breaks the promise %q: %s", l.Name, r.Text, r.Notes)
			case r.Kept && known[r.Promise]:
				t.Errorf("%s keeps the promise %q; it is listed as broken", l.Name, r.Text)
			case !r.Kept:
				t.Logf("known to be broken: %s", r.Notes)
			}
			delete(known, r.Promise)
		})
	}
	for name := range known {
		t.Errorf("there is no promise %q, or its subtest did not run", name)
	}
}

// Check returns the results of all promises without judging them. Like Run, it must
// be called from a top-level test.
func Check(t *testing.T, l Library) []Result {
	t.Helper()
	var all []Result
	for _, s := range stories {
		all = append(all, check(t, l, s))
	}
	return all
}

// cellVar is the environment variable with the promise and the library to check, in a
// process that check has started.
const cellVar = "PROMISES_CELL"

const verdictMark = "verdict: "

// perPromise is how long the process for one promise may take.
const perPromise = 20 * time.Second

// check lets another process check one promise. In that process it does not return.
func check(t *testing.T, l Library, s story) Result {
	t.Helper()
	if strings.Contains(t.Name(), "/") {
		t.Fatal("promises: call Run and Check from a top-level test")
	}
	if cell, ok := os.LookupEnv(cellVar); ok {
		if cell == s.name+" "+l.Name {
			perform(t, l, s)
		}
		return Result{}
	}
	v := watch(t, l, s)
	return Result{Promise: s.name, Text: s.promise, Kept: v.Kept, Skipped: v.NA, Notes: v.Notes}
}

// watch starts the process for one promise, and reads its verdict.
func watch(t *testing.T, l Library, s story) verdict {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), perPromise)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), cellVar+"="+s.name+" "+l.Name,
		"GORACE=atexit_sleep_ms=0") // otherwise the race detector makes each process wait for a second
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, verdictMark); ok {
			var v verdict
			if err := json.Unmarshal([]byte(rest), &v); err != nil {
				t.Fatalf("%s, %s: %v in %q", s.name, l.Name, err, line)
			}
			if strings.Contains(string(out), "WARNING: DATA RACE") {
				t.Logf("%s, %s:\n%s", s.name, l.Name, out)
				return broken("data race")
			}
			return v
		}
	}
	switch text := string(out); {
	case ctx.Err() != nil, strings.Contains(text, "deadlock"):
		return broken("hangs")
	case strings.Contains(text, "panic: boom"), strings.Contains(text, "\nboom\n"):
		return broken("kills the process")
	}
	t.Fatalf("%s, %s: %v, and no verdict in:\n%s", s.name, l.Name, err, out)
	return verdict{}
}

// perform checks one promise, prints the verdict, and exits the process, so that
// nothing waits for goroutines that the library has left behind.
func perform(t *testing.T, l Library, s story) {
	tell := func(*testing.T) {
		line, err := json.Marshal(s.tell(l))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s%s\n", verdictMark, line)
		os.Exit(0)
	}
	if s.spins && l.Expires {
		tell(t)
	}
	synctest.Test(t, tell)
}
