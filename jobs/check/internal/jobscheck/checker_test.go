package jobscheck

import (
	"bytes"
	"os"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/jobs"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// Short runs of the checker in each mode. Use jobs-check for long runs.

func TestCheckerEmbedded(t *testing.T) { check(t, Options{Mode: Embedded}) }

func TestCheckerSingle(t *testing.T) { check(t, Options{Mode: Single}) }

func TestCheckerSingleProcess(t *testing.T) {
	check(t, Options{Mode: Single, Durability: jobs.DurabilityProcess})
}

func TestCheckerCluster(t *testing.T) { check(t, Options{Mode: Cluster}) }

// check runs the checker until enough has happened, for longer each time: on a busy
// machine a cluster needs most of a short run to elect its leaders.
func check(t *testing.T, o Options) {
	o.Lease, o.Submitters, o.Workers, o.Rate = time.Second, 2, 2, 20
	o.For = time.Duration(histories.Count(3, 10)) * time.Second
	for longest := 9 * o.For; ; o.For *= 3 {
		o.Dir, o.Seed = t.TempDir(), uint64(time.Now().UnixNano())
		r, err := Run(t.Context(), o)
		if err != nil {
			t.Fatalf("Run(seed %d) = %v; want nil", o.Seed, err)
		}
		var text bytes.Buffer
		r.Print(&text)
		t.Log("\n" + text.String())
		if len(r.Violations) > 0 {
			t.Fatalf("seed %d: %d rules broken; want none", o.Seed, len(r.Violations))
		}
		switch {
		case r.Accepted >= 20 && r.States[jobs.StateDone.String()] >= 10 && len(r.Faults) >= 2:
			return
		case o.For >= longest: // a run in which too little happens proves nothing
			t.Fatalf("seed %d: too little happened in %v", o.Seed, o.For)
		}
	}
}
