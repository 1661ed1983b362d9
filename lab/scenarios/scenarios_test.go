package scenarios_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
	"github.com/weir-go/weir/lab/scenarios"
)

// TestMain lets the test binary also run as the services and the load generator.
func TestMain(m *testing.M) {
	scenario.Child(scenarios.All())
	os.Exit(m.Run())
}

// TestScenarios runs every scenario as the lab does, with its engines and processes,
// at the small size. Checks of counts must hold; times are not judged.
func TestScenarios(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := scenario.Config{Program: program, Small: true}
	for _, s := range scenarios.All() {
		t.Run(s.Name, func(t *testing.T) {
			required := os.Getenv("WEIR_TEST_ENGINES") == "required"
			needed := s
			if required {
				needed.Needs = slices.Concat(s.Needs, s.Optional)
			}
			if err := scenario.Missing([]scenario.Scenario{needed}); err != nil {
				if required {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			res, err := config.Run(t.Context(), s)
			if err != nil && !errors.Is(err, scenario.ErrNotHeld) {
				t.Fatal(err)
			}
			if len(res.Checks) == 0 {
				t.Error("it has no checks at the small size")
			}
			for _, c := range res.Checks {
				if !c.Holds {
					t.Errorf("check does not hold: %s: %s", c.What, c.Detail)
				}
			}
			roundTrip(t, res)
		})
	}
}

// roundTrip writes the result and reads it back.
func roundTrip(t *testing.T, res result.Scenario) {
	t.Helper()
	var b bytes.Buffer
	w, err := result.NewWriter(&b, result.Head{Size: result.Small, Commit: "test", StartedAt: time.Unix(1, 0)})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Scenario(res); err != nil {
		t.Fatal(err) // a number that JSON cannot represent: NaN or an infinity
	}
	run, err := result.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(run.Scenarios); n != 1 || len(run.Scenarios[0].Measurements) != len(res.Measurements) {
		t.Errorf("read back: %d scenarios, %d measurements; want 1, %d", n, len(run.Scenarios[0].Measurements), len(res.Measurements))
	}
}

// TestEachIsOneFile checks that each scenario has its own file, a page, and a
// question. The page's name ends in -scenario if an explanation already uses the
// plain name.
func TestEachIsOneFile(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := make(map[string]bool)
	for _, s := range scenarios.All() {
		if !name.MatchString(s.Name) || seen[s.Name] {
			t.Errorf("name %q: want lower case, hyphens, and once", s.Name)
		}
		seen[s.Name] = true
		if s.Title == "" || s.Asks == "" {
			t.Errorf("%s: Title or Asks is empty", s.Name)
		}
		file := regexp.MustCompile("-").ReplaceAllString(s.Name, "_") + ".go"
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "explain", s.Name+"*.md"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(pages, func(page string) bool {
			name := strings.TrimSuffix(filepath.Base(page), ".md")
			return name == s.Name || name == s.Name+"-scenario"
		}) {
			t.Errorf("%s: no page in docs/explain; want %s.md or %s-scenario.md", s.Name, s.Name, s.Name)
		}
	}
}
