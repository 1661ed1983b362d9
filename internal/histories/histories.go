// Package histories says how many random histories a test plays, and from which seeds.
//
// There is one setting. A usual run plays few histories, with seeds that no run before
// it had, so that every run on every machine adds to what was tried. WEIR_TEST_FULL=1
// plays all of them, in the nightly run. WEIR_TEST_SEED=n plays only the history of
// that seed, to look at a failure:
//
//	WEIR_TEST_SEED=731 go test -run '^TestHistory$' ./flight
//
// WEIR_TEST_PART=5 plays a fifth of the usual ones. make test sets it for the race
// detector, which makes a history ten times as slow and looks only at how goroutines
// share memory. make test plays the usual number without the detector.
//
// Only tests import this package.
package histories

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
)

const (
	fullVariable = "WEIR_TEST_FULL"
	seedVariable = "WEIR_TEST_SEED"
	partVariable = "WEIR_TEST_PART"
)

// Seeds yields the seeds of the histories that t plays: few of them, or full with
// WEIR_TEST_FULL=1, or a part of few with WEIR_TEST_PART, or one with WEIR_TEST_SEED.
//
// If t fails during a history, or panics, Seeds logs the line that runs that history
// alone, and yields no other seed: the histories that follow would most often fail for
// the same reason. Subtests that run in parallel fail only after Seeds has gone on, so
// their names must contain the seed.
//
// A check over all histories, such as "some of them had a timeout", needs enough of
// them: it is left out if Alone.
func Seeds(t testing.TB, few, full int) iter.Seq[uint64] {
	first, n, err := seeds(few, full)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(uint64) bool) {
		t.Helper()
		t.Logf("%d histories from seed %d", n, first)
		for seed := first; seed < first+n; seed++ {
			if failed := t.Failed(); !play(t, t.Name(), seed, yield) || !failed && t.Failed() {
				return
			}
		}
	}
}

// InLanes plays the histories of Seeds in four subtests that run in parallel. Each of
// them stops at its first history that fails.
func InLanes(t *testing.T, few, full int, history func(t *testing.T, seed uint64)) {
	t.Helper()
	first, n, err := seeds(few, full)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d histories from seed %d", n, first)
	const lanes = 4
	for lane := range uint64(lanes) {
		t.Run(fmt.Sprint(lane), func(lt *testing.T) {
			lt.Parallel()
			for seed := first + lane; seed < first+n && !lt.Failed(); seed += lanes {
				play(lt, t.Name(), seed, func(seed uint64) bool { history(lt, seed); return true })
			}
		})
	}
}

// play yields seed, and says how to run its history alone if t fails in it. The loop's
// body can end by return, by t.FailNow or by a panic, so this is deferred.
func play(t testing.TB, name string, seed uint64, yield func(uint64) bool) bool {
	t.Helper()
	before, returned := t.Failed(), false
	defer func() {
		t.Helper()
		// A panic has not failed t yet, and neither t.SkipNow nor a break is a failure.
		if !before && t.Failed() || !returned && !t.Failed() && !t.Skipped() {
			t.Logf("that was the history of seed %d; run it alone with %s=%d go test -run '^%s$'", seed, seedVariable, seed, strings.ReplaceAll(name, "/", "$/^"))
		}
	}()
	more := yield(seed)
	returned = true
	return more
}

// Count returns few, or full with WEIR_TEST_FULL=1. Use it for tests without seeds, and
// for those whose bounds hold only for the seeds that they were measured with.
func Count(few, full int) int {
	all, err := isFull()
	if err != nil {
		panic(err)
	}
	if all {
		return full
	}
	return few
}

// Full reports whether WEIR_TEST_FULL=1 is set.
func Full() bool { return Count(0, 1) == 1 }

// Alone reports whether WEIR_TEST_SEED names the only history to play, or WEIR_TEST_PART
// leaves out most of them.
func Alone() bool { return os.Getenv(seedVariable) != "" || Part() > 1 }

// Part returns n if a test should do an n-th of the usual: WEIR_TEST_PART, else 1. Use it
// for tests without seeds that take a sample of something.
func Part() int {
	n, err := part()
	if err != nil {
		panic(err)
	}
	return n
}

func part() (int, error) {
	v := os.Getenv(partVariable)
	if v == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("histories: %s=%s: want a number of parts, 1 or more", partVariable, v)
	}
	if all, err := isFull(); err != nil || all {
		return 0, errors.Join(err, fmt.Errorf("histories: %s=%s: not with %s=1", partVariable, v, fullVariable))
	}
	return n, nil
}

// seeds returns the first seed and how many follow each other. Nine digits are enough to
// be fresh, and few enough to be copied by hand.
func seeds(few, full int) (first, n uint64, err error) {
	all, err := isFull()
	if err != nil {
		return 0, 0, err
	}
	if one := os.Getenv(seedVariable); one != "" {
		if first, err = strconv.ParseUint(one, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("histories: %s=%s: want a seed, a whole number", seedVariable, one)
		}
		return first, 1, nil
	}
	of, err := part()
	if err != nil {
		return 0, 0, err
	}
	if few = max(few/of, 1); all {
		few = full
	}
	return rand.Uint64N(1e9), uint64(few), nil
}

func isFull() (bool, error) {
	switch v := os.Getenv(fullVariable); v {
	case "", "0":
		return false, nil
	case "1":
		return true, nil
	default:
		return false, fmt.Errorf("histories: %s=%s: want 1 or 0", fullVariable, v)
	}
}
