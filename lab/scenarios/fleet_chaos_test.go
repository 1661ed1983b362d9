package scenarios_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weir-go/weir/lab/fleetlab"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/lab/scenarios"
)

// TestChaosSeesABrokenTier breaks what the fleet stands on, one after another.
// Each time something must not hold, but where memory's cap makes up for pushes
// that are lost: that it does is the bound.
func TestChaosSeesABrokenTier(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		how, fault string
		cap        bool
		want       string // what is judged
		holds      bool
	}{
		{fleetlab.WithoutFences, "holder stopped", true, "nothing wrong is given", false},
		{fleetlab.WithoutInvalidations, "no fault", true, "nothing wrong is given", false},
		{fleetlab.WithMixedKeys, "no fault", true, "nothing wrong is given", false},
		{fleetlab.WithoutEnd, "no fault", true, "nothing wrong is given", false},
		{fleetlab.WithoutLeases, "no fault", true, "a dark burst: at most 1 loads", false},
		{fleetlab.WithoutPushes, "no fault", false, "nothing wrong is given", false},
		{fleetlab.WithoutPushes, "no fault", true, "nothing wrong is given", true},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			s := scenarios.BrokenChaos(tt.how, tt.fault, tt.cap)
			if err := scenario.Missing([]scenario.Scenario{s}); err != nil {
				if os.Getenv("WEIR_TEST_ENGINES") == "required" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			res, err := scenario.Config{Program: program, Small: true}.Run(t.Context(), s)
			if err != nil && !errors.Is(err, scenario.ErrNotHeld) {
				t.Fatal(err)
			}
			seen := false
			for _, c := range res.Checks {
				if !c.Holds && strings.Contains(c.What, tt.want) {
					t.Logf("seen: %s: %s", c.What, c.Detail)
					seen = true
				}
			}
			if seen == tt.holds || len(res.Checks) == 0 {
				t.Errorf("without %s: that %q is broken was seen: %v; want %v: %+v", tt.how, tt.want, seen, !tt.holds, res.Checks)
			}
		})
	}
}
