package jobscheck

import (
	"bytes"
	"os"
	"testing"
	"time"

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

func check(t *testing.T, o Options) {
	o.For, o.Dir, o.Seed = 10*time.Second, t.TempDir(), uint64(time.Now().UnixNano())
	o.Lease, o.Submitters, o.Workers, o.Rate = time.Second, 2, 2, 20
	if testing.Short() {
		o.For = 3 * time.Second
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("Run(seed %d) = %v; want nil", o.Seed, err)
	}
	var text bytes.Buffer
	r.Print(&text)
	if len(r.Violations) > 0 {
		t.Errorf("seed %d: %d rules broken; want none\n%s", o.Seed, len(r.Violations), &text)
	}
	// A run in which too little happens proves nothing.
	if r.Accepted < 20 || r.States[jobs.StateDone.String()] < 10 || len(r.Faults) < 2 {
		t.Errorf("seed %d: too little happened\n%s", o.Seed, &text)
	}
	t.Log("\n" + text.String())
}
