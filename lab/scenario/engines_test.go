package scenario_test

import (
	"context"
	"slices"
	"testing"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/scenario"
)

// A result has the version of each engine and tool that its scenario needs. Without any it
// says that there were none, which differs from a result of before they were recorded.
func TestVersionsOfTheEnginesAreRecorded(t *testing.T) {
	needs := slices.DeleteFunc(engine.Names(), func(name string) bool { return engine.Installed(name) != nil })
	for _, needs := range [][]string{nil, needs[:min(len(needs), 2)]} { // each takes a while
		s := counting
		s.Needs = needs
		s.Run = func(context.Context, *scenario.Lab) error { return nil }
		res, err := scenario.Config{Small: true}.Run(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if res.Engines == nil || len(res.Engines) != len(needs) {
			t.Errorf("engines %v; want those of %q", res.Engines, needs)
		}
		for _, name := range needs {
			if want, err := engine.Version(t.Context(), name); err != nil || res.Engines[name] != want {
				t.Errorf("engine %s has version %q; want %q, %v", name, res.Engines[name], want, err)
			}
		}
	}
}
