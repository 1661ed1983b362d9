package scenario

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/result"
)

// A Config configures the running of scenarios.
type Config struct {
	Program  string             // this program, which calls Child first; see os.Executable
	Small    bool               // at the small size
	Grid     bool               // with every cell, in scenarios that have a grid
	Progress *terminal.Progress // nil shows nothing

	generator []int // the processors of the load generator; nil: all
	whole     []int // those and all other processors; nil: all
}

// ErrNotHeld is returned by Run for a scenario with a failed check.
var ErrNotHeld = errors.New("a check failed")

// Missing returns an error for each engine and tool that the scenarios need and this
// machine does not have, once each.
func Missing(scenarios []Scenario) error {
	var errs []error
	asked := make(map[string]bool)
	for _, s := range scenarios {
		for _, name := range s.Needs {
			if !asked[name] {
				errs = append(errs, engine.Installed(name))
			}
			asked[name] = true
		}
	}
	return errors.Join(errs...)
}

// Pin dedicates processors to the load generator if this process may use two or more.
// It moves this process to the others, and with it everything it starts except load
// generators. Otherwise it returns an error with the reason.
func (c *Config) Pin() error {
	generator, rest, err := cpu.Split()
	if err != nil {
		return err
	}
	if err := cpu.Pin(rest); err != nil {
		return err
	}
	c.generator, c.whole = generator, slices.Concat(generator, rest)
	return nil
}

func (c Config) pinned() bool { return len(c.generator) > 0 }

// Run runs a scenario and returns its result, even with an error; the result then
// contains the error too. Everything that the scenario started has ended when Run
// returns. A panic of the scenario is returned as an error.
func (c Config) Run(ctx context.Context, s Scenario) (result.Scenario, error) {
	out := result.Scenario{Name: s.Name, Title: s.Title, Asks: s.Asks, Published: s.Published, Axis: s.Axis}
	l := &Lab{Small: c.Small, Grid: c.Grid, scenario: s, config: c, progress: c.Progress, out: &out}
	if l.progress == nil {
		l.progress = terminal.Nothing()
	}
	began := time.Now()
	err := l.do(ctx)
	l.progress.Close()
	out.ElapsedS = time.Since(began).Seconds()
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", s.Name, err)
		out.Error = err.Error()
	case !out.Held():
		err = fmt.Errorf("%s: %w", s.Name, ErrNotHeld)
	}
	return out, err
}

// do runs the scenario and stops what it started.
func (l *Lab) do(ctx context.Context) (err error) {
	if err := Missing([]Scenario{l.scenario}); err != nil {
		return err
	}
	l.out.Engines = versions(ctx, l.scenario.Needs)
	defer func() { err = errors.Join(err, l.stop()) }()
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return l.scenario.Run(ctx, l)
}

// versions returns the versions of engines and tools. A version that cannot be read does
// not stop a run of three quarters of an hour: the result then has the reason.
func versions(ctx context.Context, names []string) map[string]string {
	found := make(map[string]string)
	for _, name := range names {
		version, err := engine.Version(ctx, name)
		if err != nil {
			version = "unknown: " + err.Error()
		}
		found[name] = version
	}
	return found
}
