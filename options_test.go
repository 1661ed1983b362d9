package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
)

func TestM1TheCommonCallSpellsNoType(t *testing.T) {
	title := func(_ context.Context, id int) (string, error) { return fmt.Sprint("book ", id), nil }
	g, err := weir.New(title, weir.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var v string
	if v, err = g.Get(t.Context(), 7); v != "book 7" || err != nil {
		t.Errorf("Get(7) = %q, %v; want book 7", v, err)
	}
	byKey := weir.Must(weir.NewFrom(weir.Source[int, string]{Load: title, Clone: strings.Clone}, weir.Options{}))
	if v, err = byKey.Get(t.Context(), 8); v != "book 8" || err != nil {
		t.Errorf("Get(8) = %q, %v; want book 8", v, err)
	}
}

func TestM1MustPanics(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.As(err, new(*weir.OptionError)) {
			t.Errorf("Must panicked with %v; want the *OptionError", err)
		}
	}()
	weir.Must(weir.New(func(context.Context, int) (int, error) { return 0, nil }, weir.Options{TTL: -1}))
	t.Error("Must did not panic")
}

// M2: the Guard's own errors have their class, whatever Classify returns, and
// Classify gets all others, wrapped as they are.
func TestM2Classify(t *testing.T) {
	wrapped := fmt.Errorf("query: %w", rig.ErrDown)
	for _, row := range []struct {
		err   error
		user  weir.Class
		class weir.Class
	}{
		{weir.ErrNotFound, weir.ClassPermanent, weir.ClassNotFound},
		{fmt.Errorf("x: %w", weir.ErrNotFound), weir.ClassPermanent, weir.ClassNotFound},
		{&weir.TimeoutError{After: sec}, weir.ClassPermanent, weir.ClassTransient},
		{weir.ErrStuck, weir.ClassPermanent, weir.ClassOverload},
		{wrapped, weir.ClassPermanent, weir.ClassPermanent},
		{wrapped, weir.ClassNotFound, weir.ClassNotFound},
		{wrapped, weir.ClassOverload, weir.ClassOverload},
		{wrapped, weir.ClassCanceled, weir.ClassCanceled},
		{wrapped, weir.ClassTransient, weir.ClassTransient},
	} {
		rec := &rig.Recorder{}
		o := weir.Options{Observer: rec, Classify: func(err error) weir.Class {
			if err != row.err {
				t.Errorf("Classify was called with %v; want %v", err, row.err)
			}
			return row.user
		}}
		rig.Play(t, o, func(s *rig.Scene) {
			s.Set(0, row.err)
			r := s.Get("k")
			s.Loads()
			if !errors.Is(r.Err, row.err) || errors.Is(r.Err, weir.ErrNotFound) != (row.class == weir.ClassNotFound) {
				s.Errorf("%v as %v: Get = %v", row.err, row.user, r.Err)
			}
			if got := rec.Ends[0].Class; got != row.class {
				s.Errorf("%v as %v: class %v; want %v", row.err, row.user, got, row.class)
			}
		})
	}
	for class := weir.ClassTransient; class <= weir.ClassCanceled; class++ {
		if class.String() == "unknown" {
			t.Errorf("Class(%d) has no name", class)
		}
	}
}

func TestM4ValidateNamesFieldValueAndBound(t *testing.T) {
	const shareFromEnd = "from 0 to 0.5: the share of the TTL, counted from its end"
	for _, row := range []struct {
		field string
		o     weir.Options
		value any
		bound string
	}{
		{"Options.TTL", weir.Options{TTL: -1}, time.Duration(-1), "0 or more"},
		{"Options.TTLJitter", weir.Options{TTLJitter: -0.1}, -0.1, "from 0 to 0.5"},
		{"Options.TTLJitter", weir.Options{TTLJitter: 0.51}, 0.51, "from 0 to 0.5"},
		{"Options.RefreshAhead", weir.Options{RefreshAhead: -0.1, RefreshJitter: -1}, -0.1, shareFromEnd},
		{"Options.RefreshAhead", weir.Options{RefreshAhead: 0.8}, 0.8, shareFromEnd},
		{"Options.RefreshJitter", weir.Options{RefreshAhead: 0.5, RefreshJitter: 0.6}, 0.6, "at most 0.5"},
		{"Options.RefreshBeta", weir.Options{RefreshBeta: -0.1}, -0.1, "0 (off) or more, and finite"},
		{"Options.RefreshBeta", weir.Options{RefreshBeta: math.Inf(1)}, math.Inf(1), "0 (off) or more, and finite"},
		{"Options.RefreshBeta", weir.Options{RefreshBeta: math.Inf(-1)}, math.Inf(-1), "0 (off) or more, and finite"},
		{"Options.RefreshBeta", weir.Options{RefreshBeta: 1, RefreshAhead: 0.2}, 1.0, "0 when RefreshAhead is set"},
		{"Options.RefreshJitter", weir.Options{RefreshBeta: 1, RefreshJitter: 0.1}, 0.1, "0 without RefreshAhead"},
		{"Options.RefreshRetry", weir.Options{RefreshRetry: -sec}, -sec, "0 or more"},
		{"Options.RefreshRetryMax", weir.Options{RefreshRetryMax: sec - 1}, sec - 1, "0 (the default) or at least RefreshRetry (1s)"},
		{"Options.RefreshRetryMax", weir.Options{RefreshRetry: 3 * sec, RefreshRetryMax: 2 * sec}, 2 * sec, "0 (the default) or at least RefreshRetry (3s)"},
		{"Options.StaleWhileRevalidate", weir.Options{StaleWhileRevalidate: -1}, time.Duration(-1), "0 or more"},
		{"Options.StaleIfError", weir.Options{StaleIfError: -1}, time.Duration(-1), "0 or more"},
		{"Options.NegativeTTL", weir.Options{NegativeTTL: -1}, time.Duration(-1), "0 or more"},
		{"Options.FailureMemo.Transient.Initial", memo(weir.Backoff{Initial: -1}, 0), time.Duration(-1), "0 or more"},
		{"Options.FailureMemo.Permanent.Max", memo(weir.Backoff{Initial: 2 * ms, Max: ms}, 1), ms, "0 or at least Initial (2ms)"},
		{"Options.FailureMemo.Overload.Initial", memo(weir.Backoff{Initial: -1}, 2), time.Duration(-1), "0 or more"},
		{"Options.SoftTimeout", weir.Options{SoftTimeout: -1}, time.Duration(-1), "0 or more"},
		{"Options.MaxEntries", weir.Options{MaxEntries: -1}, -1, "0 (the default) or more"},
		{"Options.MaxEntries", weir.Options{MaxEntries: 1, MaxWeight: 1}, 1, "0 when MaxWeight is set"},
		{"Options.MaxRefreshes", weir.Options{MaxRefreshes: -1}, -1, "0 (the default) or more"},
		{"Options.MaxStuck", weir.Options{MaxStuck: -1}, -1, "0 (the default) or more"},
		{"Options.HotKeys", weir.Options{HotKeys: weir.MaxHotKeys + 1}, 10_001, "at most 10000"},
	} {
		var fault *weir.OptionError
		err := row.o.Validate()
		if !errors.As(err, &fault) || *fault != (weir.OptionError{Package: "weir", Field: row.field, Value: row.value, Bound: row.bound}) {
			t.Errorf("Validate = %#v; want %s, %v, %s", fault, row.field, row.value, row.bound)
			continue
		}
		if n := len(optionFaults(err)); n != 1 {
			t.Errorf("%s: %d faults; want 1: %v", row.field, n, err)
		}
		if got := fault.Error(); got != fmt.Sprintf("weir: %s is %v, must be %s", row.field, row.value, row.bound) {
			t.Errorf("Error() = %q; want field, value and bound", got)
		}
		if _, err := weir.New(func(context.Context, int) (int, error) { return 0, nil }, row.o); !errors.As(err, &fault) {
			t.Errorf("%s: New = %v; want an *OptionError", row.field, err)
		}
	}
	for name, o := range map[string]weir.Options{
		"TTLJitter":     {TTLJitter: math.NaN()},
		"RefreshAhead":  {RefreshAhead: math.NaN(), RefreshJitter: -1},
		"RefreshJitter": {RefreshAhead: 0.5, RefreshJitter: math.NaN()},
		"RefreshBeta":   {RefreshBeta: math.NaN()},
	} {
		if err := o.Validate(); !strings.Contains(fmt.Sprint(err), name) {
			t.Errorf("Validate with %s NaN = %v; want a fault", name, err)
		}
	}
}

// memo returns Options with b as the memo of the nth class.
func memo(b weir.Backoff, n int) weir.Options {
	var o weir.Options
	*[]*weir.Backoff{&o.FailureMemo.Transient, &o.FailureMemo.Permanent, &o.FailureMemo.Overload}[n] = b
	return o
}

// optionFaults returns all OptionErrors in err.
func optionFaults(err error) (all []*weir.OptionError) {
	switch e := err.(type) {
	case *weir.OptionError:
		all = append(all, e)
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			all = append(all, optionFaults(err)...)
		}
	}
	return all
}

func TestM4AllFaultsAtOnce(t *testing.T) {
	o := weir.Options{TTL: -1, TTLJitter: 2, RefreshAhead: 3, StaleIfError: -1, MaxEntries: -1, MaxStuck: -1}
	g, err := weir.NewFrom(weir.Source[int, int]{}, o)
	if g != nil {
		t.Error("NewFrom returned a Guard with an error")
	}
	var fields []string
	for _, f := range optionFaults(err) {
		fields = append(fields, f.Field)
	}
	want := []string{"Source", "Options.TTL", "Options.TTLJitter", "Options.RefreshAhead", "Options.StaleIfError", "Options.MaxEntries", "Options.MaxStuck"}
	if !slices.Equal(fields, want) {
		t.Errorf("faults in %v; want %v", fields, want)
	}
}

func TestM4SourceNeedsOneLoad(t *testing.T) {
	load := func(context.Context, int) (int, error) { return 1, nil }
	entry := func(context.Context, int, weir.Previous[int]) (weir.Entry[int], error) { return weir.Entry[int]{}, nil }
	many := func(context.Context, []int) (map[int]int, error) { return nil, nil }
	entries := func(context.Context, []int, []weir.Previous[int]) (map[int]weir.Entry[int], error) { return nil, nil }
	for _, row := range []struct {
		s  weir.Source[int, int]
		ok bool
	}{
		{weir.Source[int, int]{}, false},
		{weir.Source[int, int]{Load: load, LoadEntry: entry}, false},
		{weir.Source[int, int]{Load: load, LoadEntry: entry, LoadMany: many}, false},
		{weir.Source[int, int]{Load: load}, true},
		{weir.Source[int, int]{LoadEntry: entry}, true},
		{weir.Source[int, int]{LoadMany: many}, true},
		{weir.Source[int, int]{Load: load, LoadMany: many}, true},
		{weir.Source[int, int]{LoadEntries: entries}, true},
		{weir.Source[int, int]{LoadEntry: entry, LoadEntries: entries}, true},
		{weir.Source[int, int]{LoadEntry: entry, LoadMany: many}, false},
		{weir.Source[int, int]{Load: load, LoadEntries: entries}, false},
		{weir.Source[int, int]{LoadMany: many, LoadEntries: entries}, false},
	} {
		_, err := weir.NewFrom(row.s, weir.Options{})
		if (err == nil) != row.ok || err != nil && !errors.As(err, new(*weir.OptionError)) {
			t.Errorf("NewFrom(Load: %v, LoadEntry: %v, LoadMany: %v, LoadEntries: %v) = %v; want ok: %v",
				row.s.Load != nil, row.s.LoadEntry != nil, row.s.LoadMany != nil, row.s.LoadEntries != nil, err, row.ok)
		}
	}
	// The message names what to set instead.
	for field, row := range map[string]struct {
		s       weir.Source[int, int]
		instead string
	}{
		"Source.LoadMany": {weir.Source[int, int]{LoadEntry: entry, LoadMany: many}, "LoadEntries instead"},
		"Source.Load":     {weir.Source[int, int]{Load: load, LoadEntries: entries}, "LoadEntry instead"},
	} {
		var fault *weir.OptionError
		_, err := weir.NewFrom(row.s, weir.Options{})
		if !errors.As(err, &fault) || fault.Field != field || !strings.HasPrefix(fault.Bound, row.instead) {
			t.Errorf("NewFrom = %v; want a fault of %s: %s", err, field, row.instead)
		}
	}
}

func TestM4Advice(t *testing.T) {
	for _, row := range []struct {
		name string
		o    weir.Options
		want []string // begins of the sentences
	}{
		{"zero", weir.Options{}, nil},
		{"common", weir.Options{TTL: time.Minute}, nil},
		{"all that goes together", weir.Options{
			TTL: time.Minute, TTLJitter: 0.1, RefreshAhead: 0.2, StaleWhileRevalidate: sec, StaleIfError: time.Hour,
			SoftTimeout: sec, LoadTimeout: 10 * sec, NegativeTTL: sec,
		}, nil},
		{"endless", weir.Options{TTL: math.MaxInt64, StaleWhileRevalidate: math.MaxInt64, StaleIfError: math.MaxInt64, RefreshAhead: 0.5}, nil},
		{"refresh-ahead without TTL", weir.Options{RefreshAhead: 0.2}, []string{"RefreshAhead (0.2)"}},
		{"refresh-ahead for negative answers alone", weir.Options{RefreshAhead: 0.2, NegativeTTL: sec}, nil},
		{"draws without TTL", weir.Options{RefreshBeta: 1}, []string{"RefreshBeta (1)"}},
		{"draws", weir.Options{TTL: time.Minute, RefreshBeta: 1}, nil},
		{"refresh retry too long for draws", weir.Options{TTL: sec, RefreshBeta: 1, RefreshRetry: 2 * sec}, []string{"RefreshRetry (2s) is above"}},
		{"windows without TTL", weir.Options{StaleWhileRevalidate: sec, StaleIfError: time.Minute}, []string{"StaleWhileRevalidate (1s)", "StaleIfError (1m0s)"}},
		{"jitter without TTL", weir.Options{TTLJitter: 0.1}, []string{"TTLJitter (0.1)"}},
		{"soft timeout without a window", weir.Options{TTL: time.Minute, SoftTimeout: sec}, []string{"SoftTimeout (1s)"}},
		{"soft timeout with the wrong window", weir.Options{TTL: time.Minute, SoftTimeout: sec, StaleWhileRevalidate: sec}, []string{"SoftTimeout (1s)"}},
		{"soft timeout above the hard one", weir.Options{TTL: time.Minute, StaleIfError: sec, SoftTimeout: 30 * sec}, []string{"SoftTimeout (30s) is not below LoadTimeout (30s)"}},
		{"load timeout above the TTL", weir.Options{TTL: sec, LoadTimeout: 2 * sec}, []string{"LoadTimeout (2s) is above the TTL (1s)"}},
		{"no load timeout", weir.Options{TTL: sec, LoadTimeout: -1}, []string{"LoadTimeout is off"}},
		{"windows in the wrong order", weir.Options{TTL: sec, StaleIfError: sec, StaleWhileRevalidate: 2 * sec}, []string{"StaleIfError (1s) is below StaleWhileRevalidate (2s)"}},
		{"negative above the TTL", weir.Options{TTL: sec, NegativeTTL: 2 * sec}, []string{"NegativeTTL (2s) is above the TTL (1s)"}},
		{"refresh retry too long", weir.Options{TTL: sec, RefreshAhead: 0.5, RefreshRetry: 2 * sec}, []string{"RefreshRetry (2s) is above"}},
		{"refresh retry too long by default", weir.Options{TTL: 100 * ms, RefreshAhead: 0.5}, []string{"RefreshRetry (1s) is above"}},
		{"refresh retry without refreshes", weir.Options{TTL: 100 * ms}, nil},
	} {
		got := row.o.Advice()
		same := len(got) == len(row.want)
		for i := range min(len(got), len(row.want)) {
			same = same && strings.HasPrefix(got[i], row.want[i])
		}
		if !same {
			t.Errorf("%s: Advice = %q; want %q", row.name, got, row.want)
		}
		if err := row.o.Validate(); err != nil {
			t.Errorf("%s: Validate = %v; want nil", row.name, err)
		}
	}
}
