package histories_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weir-go/weir/internal/histories"
)

// A recorder is a test that fails without failing ours.
type recorder struct {
	testing.TB
	failed bool
	fatal  string
	log    []string
}

func (r *recorder) Helper()                      {}
func (r *recorder) Name() string                 { return "TestStore/kept" }
func (r *recorder) Failed() bool                 { return r.failed }
func (r *recorder) Skipped() bool                { return false }
func (r *recorder) Logf(format string, a ...any) { r.log = append(r.log, fmt.Sprintf(format, a...)) }

// Fatal panics with itself: it must not return, and our test goes on.
func (r *recorder) Fatal(a ...any) {
	r.failed, r.fatal = true, fmt.Sprint(a...)
	panic(r)
}

// play runs body for each seed and returns the seeds.
func (r *recorder) play(body func(seed uint64)) (seeds []uint64) {
	defer func() {
		if p := recover(); p != nil && p != r {
			panic(p)
		}
	}()
	for seed := range histories.Seeds(r, 4, 40) {
		seeds = append(seeds, seed)
		body(seed)
	}
	return seeds
}

func usual(t *testing.T) {
	t.Setenv("WEIR_TEST_FULL", "")
	t.Setenv("WEIR_TEST_SEED", "")
	t.Setenv("WEIR_TEST_PART", "")
}

func TestSeedsFollowTheSetting(t *testing.T) {
	usual(t)
	r := &recorder{}
	few := r.play(func(uint64) {})
	if len(few) != 4 || few[3] != few[0]+3 {
		t.Errorf("seeds %v; want four in a row", few)
	}
	if want := fmt.Sprintf("4 histories from seed %d", few[0]); !slices.Equal(r.log, []string{want}) {
		t.Errorf("log %q; want %q alone", r.log, want)
	}
	if n := histories.Count(4, 40); n != 4 || histories.Full() || histories.Alone() {
		t.Errorf("Count(4, 40) = %d, Full() = %v, Alone() = %v; want 4, false, false", n, histories.Full(), histories.Alone())
	}

	t.Setenv("WEIR_TEST_PART", "2")
	if half := (&recorder{}).play(func(uint64) {}); len(half) != 2 || histories.Part() != 2 || !histories.Alone() {
		t.Errorf("seeds %v, Part() = %d, Alone() = %v with WEIR_TEST_PART=2; want two, 2, true", half, histories.Part(), histories.Alone())
	}
	t.Setenv("WEIR_TEST_PART", "9")
	if one := (&recorder{}).play(func(uint64) {}); len(one) != 1 {
		t.Errorf("seeds %v with WEIR_TEST_PART=9; want one, never none", one)
	}
	t.Setenv("WEIR_TEST_PART", "")

	t.Setenv("WEIR_TEST_FULL", "1")
	if all := (&recorder{}).play(func(uint64) {}); len(all) != 40 || all[0] == few[0] {
		t.Errorf("%d seeds from %d with WEIR_TEST_FULL=1; want 40, and not from %d again", len(all), all[0], few[0])
	}
	if n := histories.Count(4, 40); n != 40 || !histories.Full() {
		t.Errorf("Count(4, 40) = %d, Full() = %v with WEIR_TEST_FULL=1; want 40, true", n, histories.Full())
	}

	t.Setenv("WEIR_TEST_SEED", "731")
	if one := (&recorder{}).play(func(uint64) {}); !slices.Equal(one, []uint64{731}) || !histories.Alone() {
		t.Errorf("seeds %v, Alone() = %v with WEIR_TEST_SEED=731; want that one alone", one, histories.Alone())
	}
}

func TestSeedsRefuseAWrongSetting(t *testing.T) {
	for _, tt := range []struct{ full, seed, part, names string }{
		{"yes", "", "", "yes"}, {"", "-1", "", "-1"}, {"", "seven", "", "seven"}, {"", "", "0", "PART=0"}, {"", "", "half", "half"}, {"1", "", "5", "PART=5"},
	} {
		t.Setenv("WEIR_TEST_FULL", tt.full)
		t.Setenv("WEIR_TEST_SEED", tt.seed)
		t.Setenv("WEIR_TEST_PART", tt.part)
		r := &recorder{}
		if seeds := r.play(func(uint64) {}); len(seeds) > 0 || !strings.Contains(r.fatal, tt.names) {
			t.Errorf("%+v: %d histories, %q; want none and the value named", tt, len(seeds), r.fatal)
		}
	}
}

func TestSeedsTellTheHistoryThatFailed(t *testing.T) {
	usual(t)
	for _, tt := range []struct {
		name string
		fail func(*recorder)
	}{
		{"error", func(r *recorder) { r.failed = true }},
		{"fatal", func(r *recorder) { r.Fatal("wrong") }},
		{"panic", func(r *recorder) { panic(r) }},
	} {
		r := &recorder{}
		var played []uint64
		r.play(func(seed uint64) {
			if played = append(played, seed); len(played) == 2 {
				tt.fail(r)
			}
		})
		if len(played) != 2 {
			t.Errorf("%s: %d histories played; want two, the second failed", tt.name, len(played))
		}
		want := fmt.Sprintf("WEIR_TEST_SEED=%d go test -run '^TestStore$/^kept$'", played[1])
		if len(r.log) != 2 || !strings.HasSuffix(r.log[1], want) {
			t.Errorf("%s: log %q; want it to end with %q", tt.name, r.log, want)
		}
	}
}

// A test that had failed before is played to its end: the histories show what else is
// wrong.
func TestSeedsGoOnAfterAnEarlierFailure(t *testing.T) {
	usual(t)
	r := &recorder{failed: true}
	if seeds := r.play(func(uint64) {}); len(seeds) != 4 || len(r.log) != 1 {
		t.Errorf("%d histories, log %q; want four, and none blamed", len(seeds), r.log)
	}
}

func TestInLanesPlaysEachHistoryOnce(t *testing.T) {
	usual(t)
	var mu sync.Mutex
	var played []uint64
	t.Run("all", func(t *testing.T) {
		histories.InLanes(t, 10, 20, func(_ *testing.T, seed uint64) {
			mu.Lock()
			defer mu.Unlock()
			played = append(played, seed)
		})
	})
	slices.Sort(played)
	if len(played) != 10 || played[9] != played[0]+9 {
		t.Errorf("%v were played; want ten histories in a row", played)
	}
}
