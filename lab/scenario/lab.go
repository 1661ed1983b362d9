package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weir-go/weir/app/terminal"
	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/cpu"
	"github.com/weir-go/weir/lab/result"
)

// A Lab runs the parts of a scenario. It stops everything it started when Run
// returns. Only the goroutine of Run may call its methods.
type Lab struct {
	Small bool // run at the small size: counts can be judged, times cannot
	Grid  bool // measure every cell, in scenarios that have a grid

	scenario Scenario
	config   Config
	progress *terminal.Progress
	out      *result.Scenario
	engines  []*engine.Server
	stops    []func() error // called in reverse order
}

// Size returns full, or small if the lab runs at its small size.
func Size[T any](l *Lab, full, small T) T {
	if l.Small {
		return small
	}
	return full
}

// Engine starts an engine with start, and stops it when Run is over.
func (l *Lab) Engine(ctx context.Context, name string, start func(context.Context) (*engine.Server, error)) (*engine.Server, error) {
	l.progress.Start("starting "+name, func() string { return "" })
	defer l.progress.Close()
	s, err := start(ctx)
	if err != nil {
		return nil, err
	}
	l.engines = append(l.engines, s)
	l.Defer(s.Stop)
	return s, nil
}

// Defer registers f to be called when Run is over, before anything started earlier is
// stopped.
func (l *Lab) Defer(f func() error) { l.stops = append(l.stops, f) }

// Share limits processes to a share of a processor, as `docker --cpus` does, until
// Run is over. If the machine does not allow that, Share returns nil and adds a note,
// and the run continues without the limit.
func (l *Lab) Share(name string, cpus float64) *cpu.Share {
	s, err := cpu.NewShare(name, cpus)
	if err != nil {
		l.Note("The share of %g CPU for %s was not applied: %v.", cpus, name, err)
		return nil
	}
	l.Defer(s.Remove)
	return s
}

// Spread lets everything that is started from now on run on all processors, including
// the load generator's, until Run is over. It is for services that generate their own
// load.
func (l *Lab) Spread() error {
	if !l.config.pinned() {
		return nil
	}
	if err := cpu.Pin(l.config.whole); err != nil {
		return err
	}
	l.Defer(func() error { return cpu.Pin(l.config.whole[len(l.config.generator):]) })
	return nil
}

// Step shows the current activity until the next step or measurement. It is for
// activities that take over a second and are not measured.
func (l *Lab) Step(format string, args ...any) {
	l.progress.Start(fmt.Sprintf(format, args...), func() string { return "" })
}

// Record records a measurement. Measure does so automatically.
func (l *Lab) Record(m result.Measurement) { l.out.Measurements = append(l.out.Measurements, m) }

// Measurements returns the measurements of a variant and a setting, in the order of
// the rounds. An empty setting means all settings.
func (l *Lab) Measurements(variant, setting string) []result.Measurement {
	var found []result.Measurement
	for _, m := range l.out.Measurements {
		if m.Variant == variant && (setting == "" || m.Setting == setting) {
			found = append(found, m)
		}
	}
	return found
}

// Rates returns the successful responses per second of each round of a variant under a
// setting, for result.Ratio.
func (l *Lab) Rates(variant, setting string) []float64 {
	var rates []float64
	for _, m := range l.Measurements(variant, setting) {
		rates = append(rates, m.PerSecond)
	}
	return rates
}

// One returns the last measurement of a variant. It panics if the variant was not
// measured, which is a bug in the scenario.
func (l *Lab) One(variant string) result.Measurement {
	all := l.Measurements(variant, "")
	if len(all) == 0 {
		panic(fmt.Sprintf("scenario: %s did not measure %q", l.scenario.Name, variant))
	}
	return all[len(all)-1]
}

// Row records a figure with the published one.
func (l *Lab) Row(r result.Row) { l.out.Rows = append(l.out.Rows, r) }

// Table records a table.
func (l *Lab) Table(t result.Table) { l.out.Tables = append(l.out.Tables, t) }

// Note records a remark for the reader. The same note is not recorded twice.
func (l *Lab) Note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if !slices.Contains(l.out.Notes, note) {
		l.out.Notes = append(l.out.Notes, note)
	}
}

// Check records whether a requirement holds, with the details. It is for requirements
// that apply at every size: counts, not times.
func (l *Lab) Check(what string, holds bool, format string, args ...any) {
	l.out.Checks = append(l.out.Checks, result.Check{What: what, Holds: holds, Detail: fmt.Sprintf(format, args...)})
}

// CheckTime is Check for requirements that depend on speed. At the small size it does
// nothing.
func (l *Lab) CheckTime(what string, holds bool, format string, args ...any) {
	if !l.Small {
		l.Check(what, holds, format, args...)
	}
}

// stop stops everything that was started.
func (l *Lab) stop() error {
	var errs []error
	for _, stop := range slices.Backward(l.stops) {
		errs = append(errs, stop())
	}
	l.stops = nil
	return errors.Join(errs...)
}

// enginesCPU returns the CPU time of all engines so far.
func (l *Lab) enginesCPU() time.Duration {
	var sum time.Duration
	for _, e := range l.engines {
		t, _ := cpu.Times(e.Pid()) // an engine that has ended uses no more CPU
		sum += t
	}
	return sum
}
