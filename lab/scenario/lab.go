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

// A Lab is what a scenario's Run works with. Whatever it has started it stops
// when Run is over. Its methods are for the goroutine of Run.
type Lab struct {
	Small bool // run at the small size: counts can be judged, times cannot

	scenario Scenario
	config   Config
	progress *terminal.Progress
	out      *result.Scenario
	engines  []*engine.Server
	stops    []func() error // what to end, the last first
}

// Size returns full, or small if the lab runs at its small size.
func Size[T any](l *Lab, full, small T) T {
	if l.Small {
		return small
	}
	return full
}

// Engine starts an engine, by start, and stops it when Run is over.
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

// Defer has f called when Run is over, before what was started earlier is
// stopped.
func (l *Lab) Defer(f func() error) { l.stops = append(l.stops, f) }

// Share holds processes to a share of a processor, as `docker --cpus` does,
// until Run is over. Where the machine does not allow it the run goes on
// without, and says so in its notes: Share then returns nil.
func (l *Lab) Share(name string, cpus float64) *cpu.Share {
	s, err := cpu.NewShare(name, cpus)
	if err != nil {
		l.Note("The share of %g CPU for %s was not applied: %v.", cpus, name, err)
		return nil
	}
	l.Defer(s.Remove)
	return s
}

// Spread lets what is started from now on run on all processors, until Run is
// over: those of the load generator too. It is for services that make their load
// themselves.
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

// Step shows what goes on, until the next step or measurement. It is for what
// takes over a second and is not measured.
func (l *Lab) Step(format string, args ...any) {
	l.progress.Start(fmt.Sprintf(format, args...), func() string { return "" })
}

// Record writes a measurement down. Measure does it by itself.
func (l *Lab) Record(m result.Measurement) { l.out.Measurements = append(l.out.Measurements, m) }

// Measurements returns what was written down for a variant and a setting, in
// the order of the rounds. The empty setting stands for all.
func (l *Lab) Measurements(variant, setting string) []result.Measurement {
	var found []result.Measurement
	for _, m := range l.out.Measurements {
		if m.Variant == variant && (setting == "" || m.Setting == setting) {
			found = append(found, m)
		}
	}
	return found
}

// Rates returns the good answers per second of each round of a variant under a
// setting, for result.Ratio.
func (l *Lab) Rates(variant, setting string) []float64 {
	var rates []float64
	for _, m := range l.Measurements(variant, setting) {
		rates = append(rates, m.PerSecond)
	}
	return rates
}

// One returns the last measurement of a variant. A variant that was not
// measured is a mistake of the scenario, which panics.
func (l *Lab) One(variant string) result.Measurement {
	all := l.Measurements(variant, "")
	if len(all) == 0 {
		panic(fmt.Sprintf("scenario: %s has not measured %q", l.scenario.Name, variant))
	}
	return all[len(all)-1]
}

// Row writes down a figure beside the published one.
func (l *Lab) Row(r result.Row) { l.out.Rows = append(l.out.Rows, r) }

// Table writes down a table.
func (l *Lab) Table(t result.Table) { l.out.Tables = append(l.out.Tables, t) }

// Note writes down what a reader should know. A note that stands there
// already is not written again.
func (l *Lab) Note(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	if !slices.Contains(l.out.Notes, note) {
		l.out.Notes = append(l.out.Notes, note)
	}
}

// Check writes down whether something holds that must hold at every size, and
// what was found: a count, not a time.
func (l *Lab) Check(what string, holds bool, format string, args ...any) {
	l.out.Checks = append(l.out.Checks, result.Check{What: what, Holds: holds, Detail: fmt.Sprintf(format, args...)})
}

// CheckTime is Check for what depends on how fast things are. At the small
// size it does nothing.
func (l *Lab) CheckTime(what string, holds bool, format string, args ...any) {
	if !l.Small {
		l.Check(what, holds, format, args...)
	}
}

// stop ends all that was started.
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
		t, _ := cpu.Times(e.Pid()) // of one that has ended nothing more is used
		sum += t
	}
	return sum
}
