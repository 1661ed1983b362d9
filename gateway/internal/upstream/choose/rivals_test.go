package choose_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

var write = flag.Bool("table", false, "write the table of TestH35_Rivals")

// results is the committed table.
const results = "../../../../bench/results/2026-11-29-pool.txt"

// A rival is another rule: of two servers at random, that with the smaller score.
type rival struct {
	flying  []int
	average []float64 // seconds
	seen    []time.Duration
	score   func(w *world, r *rival, i int) float64
	sample  func(w *world, r *rival, i int, took float64)
}

func (r *rival) pick(w *world, _ work, tried []int) (int, func(int)) {
	a, b := w.random.IntN(len(w.servers)), w.random.IntN(len(w.servers)-1)
	if b >= a {
		b++
	}
	if r.score != nil && r.score(w, r, b) < r.score(w, r, a) {
		a = b
	}
	r.flying[a]++
	began := w.now
	return a, func(int) {
		r.flying[a]--
		if r.sample != nil {
			r.sample(w, r, a, (w.now - began).Seconds())
		}
		r.seen[a] = w.now
	}
}

// rivals returns the rules by name.
func rivals() []struct {
	name   string
	score  func(w *world, r *rival, i int) float64
	sample func(w *world, r *rival, i int, took float64)
} {
	type rule = struct {
		name   string
		score  func(w *world, r *rival, i int) float64
		sample func(w *world, r *rival, i int, took float64)
	}
	mean := func(_ *world, r *rival, i int, took float64) {
		r.average[i] += (took - r.average[i]) / 16
	}
	return []rule{
		{"random", nil, nil},
		{"least in flight of two", func(_ *world, r *rival, i int) float64 { return float64(r.flying[i]) }, nil},
		{"plain average of two", func(_ *world, r *rival, i int) float64 { return float64(r.flying[i]+1) * r.average[i] }, mean},
		{"Peak EWMA", func(w *world, r *rival, i int) float64 {
			return float64(r.flying[i]+1) * (r.average[i]*math.Exp(-(w.now-r.seen[i]).Seconds()/10) + 1e-9)
		}, func(w *world, r *rival, i int, took float64) {
			if took > r.average[i] {
				r.average[i] = took
				return
			}
			f := math.Exp(-(w.now - r.seen[i]).Seconds() / 10)
			r.average[i] = r.average[i]*f + took*(1-f)
		}},
		{"perfect knowledge of two", func(w *world, _ *rival, i int) float64 {
			return float64(w.servers[i].flying+1) / w.servers[i].speed
		}, nil},
	}
}

// choosers puts a rule into each of n gateways; empty means ours.
func (w *world) choosers(n int, name string) {
	if name == "" {
		w.books(n, 0)
		return
	}
	for _, rule := range rivals() {
		for range n {
			if rule.name == name {
				r := &rival{score: rule.score, sample: rule.sample}
				r.flying, r.average, r.seen = make([]int, len(w.servers)), make([]float64, len(w.servers)), make([]time.Duration, len(w.servers))
				w.gates = append(w.gates, r)
			}
		}
	}
}

// halfSpeed is 20 servers of 4 workers, 5 of them at half speed, at 80 % of what they can do.
func halfSpeed(seed uint64, name string, d time.Duration) *world {
	w := newWorld(seed, 20)
	for i, s := range w.servers {
		s.places = 4
		if i < 5 {
			s.speed = .5
		}
		s.service = func(w *world) time.Duration {
			return time.Duration(w.random.ExpFloat64() * float64(usual) / s.speed)
		}
	}
	w.choosers(8, name)
	w.openLoop(.8*(15*4+5*2)/usual.Seconds(), plain)
	w.run(20 * time.Second)
	w.measure()
	w.run(d)
	return w
}

func TestH35_ManyGateways(t *testing.T) {
	for _, seed := range seeds {
		own, two := halfSpeed(seed, "", 20*time.Second).quantile(.99), halfSpeed(seed, "least in flight of two", 20*time.Second).quantile(.99)
		if float64(own) > .8*float64(two) {
			t.Errorf("seed %d: p99 = %v; want at most 0.8 of that of the least in flight of two, which is %v", seed, own, two)
		}
	}
}

// The table that decision 0109 refers to compares the rules. A change of ours changes it, and
// writes it again with -table.
func TestH35_Rivals(t *testing.T) {
	var b strings.Builder
	fmt.Fprintf(&b, "Rules for the choice of a server, simulated (%s).\n", runtime.Version())
	fmt.Fprintf(&b, "go test ./gateway/internal/upstream/choose -run TestH35_Rivals -table\n\n")
	fmt.Fprintf(&b, "%-26s", "")
	names := []string{""}
	for _, r := range rivals() {
		names = append(names, r.name)
	}
	for _, n := range names {
		if n == "" {
			n = "weir"
		}
		fmt.Fprintf(&b, "%26s", n)
	}
	fmt.Fprintln(&b)
	row := func(title string, value func(seed uint64, name string) string) {
		for _, seed := range seeds {
			fmt.Fprintf(&b, "%-24s %d", title, seed)
			for _, n := range names {
				fmt.Fprintf(&b, "%26s", value(seed, n))
			}
			fmt.Fprintln(&b)
		}
	}
	fault := func(set func(*server)) func(seed uint64, name string) string {
		return func(seed uint64, name string) string {
			w := newWorld(seed, 4)
			w.choosers(1, name)
			w.closed(40, plain)
			w.run(5 * time.Second)
			set(w.servers[1])
			w.run(2 * time.Second)
			w.measure()
			w.run(20 * time.Second)
			return fmt.Sprintf("%.2f %%", w.share(1)*100)
		}
	}
	fmt.Fprintln(&b, "Share of one of four servers of 20 ms, 40 clients, from 2 s after it began to fail:")
	row("500 in 1 ms", fault(func(s *server) { s.fault = fails(500, time.Millisecond, 1) }))
	row("half 503 in 1 ms", fault(func(s *server) { s.fault = fails(503, time.Millisecond, .5) }))
	row("404 in 1 ms", fault(func(s *server) { s.fault = fails(404, time.Millisecond, 1) }))
	row("ten times slower", fault(func(s *server) { s.speed = .1 }))
	row("hangs for 30 s", fault(func(s *server) { s.fault = fails(0, 30*time.Second, 1) }))
	fmt.Fprintln(&b, "8 gateways, 20 servers of 4 workers, 5 of them at half speed, 80 % load, 60 s:")
	worlds := map[string]*world{}
	at := func(seed uint64, name string) *world {
		key := fmt.Sprint(seed, name)
		if worlds[key] == nil {
			worlds[key] = halfSpeed(seed, name, time.Minute)
		}
		return worlds[key]
	}
	row("p50", func(seed uint64, name string) string {
		return at(seed, name).quantile(.5).Round(time.Millisecond).String()
	})
	row("p99", func(seed uint64, name string) string {
		return at(seed, name).quantile(.99).Round(time.Millisecond).String()
	})
	row("p99.9", func(seed uint64, name string) string {
		return at(seed, name).quantile(.999).Round(time.Millisecond).String()
	})
	if *write {
		if err := os.WriteFile(results, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(results)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the results are in the repository, and not in the module's zip")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, was, _ := strings.Cut(string(want), "\n") // the first line has the version of Go
	if _, is, _ := strings.Cut(b.String(), "\n"); is != was && runtime.GOARCH == "amd64" {
		t.Errorf("the table is not that of %s; it is now\n%s", results, is)
	}
}
