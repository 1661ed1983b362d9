package scenarios_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/fleetlab"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/lab/scenarios"
)

// TestChaosSeesABrokenTier breaks the tier in one way at a time. Each time a check
// must fail. The exception is lost pushes, if the memory's cap makes up for them:
// then the bound must hold.
func TestChaosSeesABrokenTier(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		how, fault string
		cap        bool
		want       string // the check that must fail
		holds      bool
	}{
		{fleetlab.WithoutFences, "holder stopped", true, "no wrong value is returned", false},
		{fleetlab.WithoutInvalidations, "no fault", true, "no wrong value is returned", false},
		{fleetlab.WithMixedKeys, "no fault", true, "no wrong value is returned", false},
		{fleetlab.WithoutEnd, "no fault", true, "no wrong value is returned", false},
		{fleetlab.WithoutLeases, "no fault", true, "a dark burst: at most 1 loads", false},
		{fleetlab.WithoutPushes, "no fault", false, "no wrong value is returned", false},
		{fleetlab.WithoutPushes, "no fault", true, "no wrong value is returned", true},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel() // each has its own engine and processes, and mostly waits
			s := scenarios.BrokenChaos(tt.how, tt.fault, tt.cap)
			if err := scenario.Missing([]scenario.Scenario{s}); err != nil {
				if os.Getenv("WEIR_TEST_ENGINES") == "required" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			// On a busy machine an instance that resumes may miss the engine's
			// deadline, and so do no harm. The fault must show in one of a few runs.
			tries := 4
			if tt.holds {
				tries = 1
			}
			for ; tries > 0; tries-- {
				seen, checks := sees(t, scenario.Config{Program: program, Small: true}, s, tt.want)
				if seen != tt.holds {
					break
				}
				if tries == 1 {
					t.Errorf("without %s: check %q failed: %v; want %v: %+v", tt.how, tt.want, seen, !tt.holds, checks)
				}
			}
		})
	}
}

// sees runs s and reports whether the check want fails.
func sees(t *testing.T, c scenario.Config, s scenario.Scenario, want string) (seen bool, checks []result.Check) {
	t.Helper()
	res, err := c.Run(t.Context(), s)
	if err != nil && !errors.Is(err, scenario.ErrNotHeld) {
		t.Fatal(err)
	}
	if len(res.Checks) == 0 {
		t.Fatal("it has no checks")
	}
	for _, c := range res.Checks {
		if !c.Holds && strings.Contains(c.What, want) {
			t.Logf("seen: %s: %s", c.What, c.Detail)
			seen = true
		}
	}
	return seen, res.Checks
}
