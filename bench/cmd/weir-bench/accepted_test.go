package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	hit     = "fresh hit, string keys: weir / otter" // lower is better
	sturdyc = "fresh hit: sturdyc / weir"            // higher is better
	allocs  = "fresh hit: weir, allocations"         // a count
)

func ratio(what string, low, median, high float64) accepted {
	return accepted{what, spread{Median: median, Low: low, High: high}}
}

func TestCompareWith(t *testing.T) {
	last := []accepted{ratio(hit, 0.9, 1.0, 1.2), ratio(sturdyc, 3.0, 3.2, 3.7), ratio(allocs, 0, 0, 0)}
	with := func(a accepted) []accepted {
		now := slices.Clone(last)
		for i := range now {
			if now[i].What == a.What {
				now[i] = a
			}
		}
		return now
	}
	for _, tt := range []struct {
		name string
		now  []accepted
		want string // part of the error; empty: none
	}{
		{"the same", last, ""},
		{"better", with(ratio(hit, 0.4, 0.5, 0.6)), ""},
		{"much higher, which is better", with(ratio(sturdyc, 8, 9, 10)), ""},
		{"worse within the bound", with(ratio(hit, 1.3, 1.49, 1.6)), ""},          // 1.2 * 1.25 = 1.5
		{"worse beyond the bound", with(ratio(hit, 1.4, 1.51, 1.6)), hit},         //
		{"lower within the bound", with(ratio(sturdyc, 2.3, 2.41, 2.5)), ""},      // 3.0 / 1.25 = 2.4
		{"lower beyond the bound", with(ratio(sturdyc, 2.3, 2.39, 2.5)), sturdyc}, //
		{"one allocation more", with(ratio(allocs, 0, 1, 1)), allocs},
		{"not measured", last[1:], hit + ": not measured"},
		{"new", append(slices.Clone(last), ratio("fresh hit: theine / weir", 1, 1, 1)), "weir-bench accept"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := compareWith(last, tt.now)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("compareWith = %v; want an error with %q", err, tt.want)
			}
		})
	}
}

// Times of one machine are not compared: only ratios within a run, and counts.
func TestAcceptableHasNoTimes(t *testing.T) {
	var have []string
	for _, a := range acceptable(run, func(string) bool { return true }) {
		have = append(have, a.What)
	}
	want := []string{hit, allocs, "miss: weir / resenje around one otter Set", "miss: weir, allocations"}
	if !slices.Equal(have, want) {
		t.Errorf("acceptable = %q; want %q", have, want)
	}
	for _, g := range goals {
		if g.holds() && g.den == "" && strings.HasPrefix(g.unit, "ns") {
			t.Errorf("%s: a time is compared", g.what)
		}
	}
}

// The committed file has the ratios that check measures: a new goal has to be accepted.
func TestCommittedRatiosAreThoseOfCheck(t *testing.T) {
	have, err := readAccepted(filepath.Join("..", "..", "..", acceptedFile))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(checked).MatchString
	var names []string
	for _, a := range have {
		names = append(names, a.What)
	}
	var want []string
	for _, g := range goals {
		if g.holds() && match(g.bench) && (g.denBench == "" || match(g.denBench)) {
			want = append(want, g.what)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s has %q; want %q", acceptedFile, names, want)
	}
	if err := compareWith(have, have); err != nil {
		t.Errorf("the accepted ratios against themselves: %v", err)
	}
}

func TestAcceptAndRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results", "accepted.json")
	want := []accepted{ratio(hit, 0.9, 1, 1.2)}
	if err := writeAccepted(name, want); err != nil {
		t.Fatal(err)
	}
	if have, err := readAccepted(name); err != nil || !slices.Equal(have, want) {
		t.Errorf("readAccepted = %v, %v; want %v", have, err, want)
	}
	if err := writeAccepted(name, nil); err == nil {
		t.Error("writeAccepted of an empty run returned no error")
	}
	if err := os.WriteFile(name, []byte("[]"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readAccepted(name); err == nil {
		t.Error("readAccepted of an empty file returned no error")
	}
}
