package periodic

import (
	"fmt"
	"regexp"
	"time"

	"github.com/weir-go/weir/jobs"
	"github.com/weir-go/weir/option"
)

// Defaults and bounds of the options.
const (
	DefaultMaxSchedules = 100              // Options.MaxSchedules
	DefaultMinInterval  = 10 * time.Second // Options.MinInterval
	DefaultConcurrency  = 8                // Options.Concurrency
	DefaultCatchUp      = 100              // Schedule.CatchUp
	DefaultGrace        = time.Minute      // Schedule.Grace

	MaxSchedules = 10_000  // of Options.MaxSchedules
	MaxCatchUp   = 1000    // of Schedule.CatchUp
	MaxCounted   = 100_000 // missed ticks that an EventMissed counts
)

// Options configure a Scheduler.
type Options struct {
	// MaxSchedules bounds the number of schedules; each has a goroutine. From 1 to the
	// constant MaxSchedules. Default: DefaultMaxSchedules.
	MaxSchedules int

	// MinInterval is the shortest time between two ticks of a schedule. New refuses a
	// schedule with a shorter one. From 1 s to 24 h. Default: DefaultMinInterval.
	MinInterval time.Duration

	// Concurrency is the number of schedules that use the Store at once. From 1 to 64.
	// Default: DefaultConcurrency.
	Concurrency int

	// Observer is notified of what becomes of each tick, and of errors. Nil: none.
	Observer Observer
}

// An OptionError is an invalid field of an options struct or a Schedule.
type OptionError = option.Error

var nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (o Options) withDefaults() Options {
	orDefault(&o.MaxSchedules, DefaultMaxSchedules)
	orDefault(&o.MinInterval, DefaultMinInterval)
	orDefault(&o.Concurrency, DefaultConcurrency)
	return o
}

func (s Schedule) withDefaults() Schedule {
	if s.Missed == MissedAll {
		orDefault(&s.CatchUp, DefaultCatchUp)
	}
	orDefault(&s.Grace, DefaultGrace)
	return s
}

func orDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

type faults struct{ option.Faults }

func (f *faults) between(field string, d, least, most time.Duration) {
	f.Check(least <= d && d <= most, field, d, fmt.Sprintf("from %v to %v", least, most))
}

// parse checks all options and schedules, and returns the schedules' specs.
func parse(store *jobs.Store, all []Schedule, o Options) ([]*spec, error) {
	f := &faults{option.Faults{Package: "periodic"}}
	f.Check(store != nil, "the Store", "nil", "given")
	f.Check(1 <= o.MaxSchedules && o.MaxSchedules <= MaxSchedules, "Options.MaxSchedules", o.MaxSchedules, fmt.Sprintf("from 1 to %d", MaxSchedules))
	f.between("Options.MinInterval", o.MinInterval, time.Second, 24*time.Hour)
	f.Check(1 <= o.Concurrency && o.Concurrency <= 64, "Options.Concurrency", o.Concurrency, "from 1 to 64")
	f.Check(len(all) <= o.MaxSchedules, "the number of schedules", len(all), fmt.Sprintf("at most MaxSchedules (%d)", o.MaxSchedules))
	if f.Err() != nil {
		return nil, f.Err() // the schedules are not parsed beyond their bound
	}
	specs := make([]*spec, len(all))
	names := make(map[string]bool)
	for i, s := range all {
		f.Prefix = fmt.Sprintf("schedule %q: ", s.Name)
		f.Check(nameForm.MatchString(s.Name), "Name", s.Name, "1 to 64 letters, digits, ., - and _")
		f.Check(!names[s.Name], "Name", s.Name, "different from the names of other schedules")
		names[s.Name] = true
		specs[i] = s.check(f, o)
		f.Check(s.Job.queue == nil || s.Job.store == any(store), "Job", "for a queue of another Store", "for a queue of the Scheduler's Store")
	}
	return specs, f.Err()
}

// check adds the faults of a schedule, and returns its spec.
func (s Schedule) check(f *faults, o Options) *spec {
	spec, err := parseSpec(s.Spec, s.Zone)
	if err != nil {
		f.Check(false, "Spec", fmt.Sprintf("%q", s.Spec), "valid: "+err.Error())
	} else {
		f.Check(spec.shortest() >= o.MinInterval, "Spec", fmt.Sprintf("%q, every %v", s.Spec, spec.shortest()), fmt.Sprintf("at intervals of MinInterval (%v) or more", o.MinInterval))
	}
	if f.Check(s.Job.queue != nil, "Job", "the zero Job", "created by Submit, with a queue and an input") {
		j := s.Job.options
		f.Check(j.Key == "" && j.Fingerprint == "" && !j.Once && !j.Restart, "Job", "with a Key, Fingerprint, Once or Restart", "without: the key is that of the tick")
	}
	f.Check(s.Missed < missedEnd, "Missed", s.Missed, "MissedLatest, MissedSkip or MissedAll")
	if s.Missed == MissedAll {
		f.Check(1 <= s.CatchUp && s.CatchUp <= MaxCatchUp, "CatchUp", s.CatchUp, fmt.Sprintf("from 1 to %d", MaxCatchUp))
	} else {
		f.Check(s.CatchUp == 0, "CatchUp", s.CatchUp, "0 without MissedAll")
	}
	f.between("Grace", s.Grace, time.Second, 24*time.Hour)
	return spec
}
