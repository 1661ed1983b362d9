package soak

import (
	"context"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/lab/engine"
)

func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

var (
	soakFor  = flag.Duration("soak.for", 2*time.Minute, "how long TestSoak runs")
	soakSeed = flag.Uint64("soak.seed", 1, "its seed")
)

// TestSoak runs both kinds of soak for half the time each, and requires that there
// are no mishaps.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("two minutes")
	}
	if err := engine.Installed("redis"); err != nil {
		if os.Getenv("WEIR_TEST_ENGINES") == "required" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range []bool{false, true} {
		dir := t.TempDir()
		r, err := Run(t.Context(), Options{
			Program: program, Dir: dir, For: *soakFor / 2, Seed: *soakSeed, Cluster: cluster, Rate: 25, Every: 4 * time.Second, Log: t.Output(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Table(t.Output()); err != nil {
			t.Fatal(err)
		}
		for kind, n := range r.Found {
			if n > 0 {
				t.Errorf("%d %s: %s", n, kind, strings.Join(r.First[kind], "\n"))
			}
		}
		good := 0
		for _, q := range r.Requests {
			good += q.Good
		}
		if good < 500 || r.Accepted == 0 || r.Purges == 0 || len(r.Faults) < 3 || len(r.Samples) == 0 {
			t.Errorf("%d good responses, %d jobs, %d checked for age, %d kinds of faults: too few to judge", good, r.Accepted, r.Purges, len(r.Faults))
		}
		if svg := r.Chart(); !strings.Contains(string(svg), "Goroutines") {
			t.Error("the chart shows no goroutines")
		}
	}
}

func TestBodiesSayWhatTheyAre(t *testing.T) {
	b := bodyOf("/page/1", 3, 500)
	if v, err := versionOf(b, "/page/1"); v != 3 || err != nil {
		t.Errorf("versionOf() = %d, %v; want 3", v, err)
	}
	other := bodyOf("/page/1", 4, 500)
	mixed := append(append([]byte(nil), b[:300]...), other[300:]...)
	for name, bad := range map[string][]byte{"short": b[:len(b)-1], "mixed": mixed, "empty": nil, "long": append(append([]byte(nil), b...), 'x')} {
		if _, err := versionOf(bad, "/page/1"); err == nil {
			t.Errorf("a body that is %s is accepted", name)
		}
	}
	if _, err := versionOf(b, "/page/2"); err == nil {
		t.Error("the body of another owner is accepted")
	}
	if v, err := partOf(b[100:200], "/page/1", 100, 500, 5); v != 3 || err != nil {
		t.Errorf("partOf() = %d, %v; want 3", v, err)
	}
	if _, err := partOf(mixed[250:350], "/page/1", 250, 500, 5); err == nil {
		t.Error("a part of two versions is accepted")
	}
}

// found judges and returns the number of mishaps of a kind in a ledger.
func found(l *ledger, kind string) int {
	l.judge()
	return l.counts[kind]
}

func TestLedgerSeesWhatWasPurged(t *testing.T) {
	g := &gateway{index: 1}
	tests := []struct {
		name string
		tell func(l *ledger)
		want int
	}{
		{"the new version", func(l *ledger) { l.purged(1, 1, "k", 2); l.response(g, 1, "k", 2, time.Now()) }, 0},
		{"the old one", func(l *ledger) { l.purged(1, 1, "k", 2); l.response(g, 1, "k", 1, time.Now()) }, 1},
		{"asked for before", func(l *ledger) {
			asked := time.Now()
			l.purged(1, 1, "k", 2)
			l.response(g, 1, "k", 1, asked)
		}, 0},
		{"purged by another", func(l *ledger) { l.purged(2, 1, "k", 2); l.response(g, 1, "k", 1, time.Now()) }, 0},
		{"in an earlier life", func(l *ledger) { l.purged(1, 1, "k", 2); l.response(g, 2, "k", 1, time.Now()) }, 0},
		{"after the engine lost history", func(l *ledger) {
			l.purged(1, 1, "k", 2)
			l.losing()
			l.response(g, 1, "k", 1, time.Now())
		}, 0},
		{"a version that never was", func(l *ledger) { l.response(g, 1, "k", 9, time.Now()) }, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger()
			l.check.Changing("k")()
			tt.tell(l)
			if got := found(l, tooOld); got != tt.want {
				t.Errorf("%d found; want %d: %v", got, tt.want, l.told[tooOld])
			}
		})
	}
}

func TestLedgerExplainsErrorsByFaults(t *testing.T) {
	began := time.Now()
	for name, tt := range map[string]struct {
		explains func(int, string) bool
		want     int
	}{
		"of that gateway":   {at(1), 0},
		"of another":        {at(2), 1},
		"of that request":   {at(everywhere, opJob, opPage), 0},
		"of other requests": {at(everywhere, opJob), 1},
		"of nothing":        {nothing, 1},
	} {
		l := newLedger()
		l.end(l.begin("a fault", tt.explains))
		l.failed(1, opPage, began, "status 503")
		if got := found(l, unexplained); got != tt.want {
			t.Errorf("a fault %s: %d unexplained; want %d", name, got, tt.want)
		}
	}
	l := newLedger()
	l.end(l.begin("a fault", at(1)))
	l.failed(1, opPage, time.Now().Add(time.Second), "status 503")
	if got := found(l, unexplained); got != 1 {
		t.Errorf("a fault that was over: %d unexplained; want 1", got)
	}
}

func TestJobsThatAreLostOrDoneTwice(t *testing.T) {
	second := run{begun: time.Now(), ended: time.Now()}
	tests := []struct {
		name, kind, state string
		over              bool
		runs              []run
		want              string
	}{
		{"done once", keyed, "done", true, []run{second}, ""},
		{"begun and given up, then done", keyed, "done", true, []run{{begun: time.Now()}, second}, ""},
		{"done twice", keyed, "done", true, []run{second, second}, jobTwice},
		{"not repeatable, begun twice", unsafe, "done", true, []run{{begun: time.Now()}, second}, jobTwice},
		{"still queued", safe, "queued", false, nil, jobLost},
		{"done without work", safe, "done", true, nil, wrongBody},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &soak{ledger: newLedger(), source: &source{runs: map[string][]run{"1": tt.runs}}}
			s.jobs = []*job{{id: "1", kind: tt.kind, at: &gateway{index: 1}, state: tt.state, over: tt.over}}
			s.judgeJobs()
			for _, kind := range mishapKinds {
				if got, want := s.ledger.counts[kind], map[bool]int{true: 1}[kind == tt.want]; got != want {
					t.Errorf("%d %s; want %d", got, kind, want)
				}
			}
		})
	}
}

func TestTrends(t *testing.T) {
	var at, flat, rising, material, filling, leaking []float64
	for i := range 600 {
		wave := float64(i%7) - 3
		at = append(at, float64(i)*2)
		flat = append(flat, 100+wave)
		rising = append(rising, 100+wave+float64(i)/10)
		material = append(material, 100+float64(i)/1000)
		saw := 20 * math.Mod(float64(i), 300) / 300 // a cache that fills up and is emptied
		filling = append(filling, 100+wave+saw)
		leaking = append(leaking, 100+wave+saw+float64(i)/10)
	}
	for _, tt := range []struct {
		name   string
		values []float64
		want   bool
	}{{"flat", flat, false}, {"rising", rising, true}, {"by less than anybody could see", material, false},
		{"filling", filling, false}, {"filling and leaking", leaking, true}} {
		got := trendOf(tt.name, at, tt.values)
		if !got.Measured || got.Rises != tt.want {
			t.Errorf("%+v; want rises %v", got, tt.want)
		}
	}
	if got := trendOf("rising", at, rising); got.Slope < 170 || got.Slope > 190 {
		t.Errorf("slope %v an hour; want 180", got.Slope)
	}
	if got := trendOf("few", at[:10], flat[:10]); got.Measured || got.Rises {
		t.Errorf("%+v of ten samples; want Measured false", got)
	}
}

func TestAProcessThatDoesNotStart(t *testing.T) {
	dir := t.TempDir()
	if _, err := Run(t.Context(), Options{Program: filepath.Join(dir, "missing"), Dir: dir, For: time.Second}); err == nil {
		t.Error("Run() = nil error without a program")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if rest(ctx, time.Hour) {
		t.Error("rest() = true after its context's end")
	}
}
