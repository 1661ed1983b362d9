package scenarios

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sort"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var zipf = scenario.Scenario{
	Name:    "zipf",
	Title:   "How large a cache has to be",
	Asks:    "Some keys are requested more often than others. How many calls does a cache save if it has room for a hundredth of the keys, a tenth, or half?",
	Axis:    "room for keys, %",
	Service: zipfService,
	Run:     runZipf,
}

// zipfParams configure a service.
type zipfParams struct {
	Keys int
	Room float64 // of all keys, in percent
	Skew float64
	Call time.Duration
	Seen int // requests of the warm-up
}

func (p zipfParams) entries() int { return int(float64(p.Keys) * p.Room / 100) }

// The measured skews and cache sizes. A skew of s gives the r-th key a weight of
// 1/r^s; web traffic has between 0.6 and 1.
var (
	zipfSkews = []float64{0.6, 0.8, 0.99, 1.2}
	zipfRooms = []float64{1, 5, 10, 50}
)

// zipfUnprotected is the skew of the load on the variant without a cache, for which
// the skew makes no difference.
const zipfUnprotected = 0.99

func zipfVariant(skew float64) string { return fmt.Sprintf("weir, skew %g", skew) }

// hitRatio names the share of the requests that were hits.
const hitRatio = "hit ratio"

func runZipf(ctx context.Context, l *scenario.Lab) error {
	p := scenario.Size(l,
		zipfParams{Keys: 100_000, Call: 5 * time.Millisecond, Seen: 300_000},
		zipfParams{Keys: 5_000, Call: 100 * time.Microsecond, Seen: 20_000})
	requests := scenario.Size(l, 20_000, 2_000)
	paths := keyPaths(p.Keys)
	rooms := scenario.Size(l, zipfRooms, []float64{1, 50})
	send := func(variant string, skew, room float64) error {
		p.Skew, p.Room = skew, room
		s, err := l.Serve(ctx, variant, p)
		if err != nil {
			return err
		}
		m, err := l.Measure(ctx, s, scenario.Job{X: room, Load: load.Spec{
			Mode: load.Closed, Clients: 64, Requests: requests, URLs: paths, Pick: load.Zipf, Skew: skew, Seed: 1,
		}})
		if err != nil {
			return err
		}
		checkZipf(l, m)
		return s.Stop()
	}
	for _, room := range rooms {
		if err := send(unprotected, zipfUnprotected, room); err != nil {
			return err
		}
		for _, skew := range zipfSkews {
			if err := send(zipfVariant(skew), skew, room); err != nil {
				return err
			}
		}
	}
	checkGrowth(l)
	l.Table(zipfTable(l, p.Keys, rooms))
	l.Note("Before the measurement each cache gets %d requests with the same distribution. Their calls take no time and are not counted.", p.Seen)
	return nil
}

// checkZipf records the checks of one measurement.
func checkZipf(l *scenario.Lab, m result.Measurement) {
	name := fmt.Sprintf("%s, room for %g %%", m.Variant, m.X)
	l.Check(name+": no request fails", m.Failures == 0, "%d of %d failed", m.Failures, m.Requests)
	if m.Variant == unprotected {
		l.Check(name+": each request is a call", m.Source.Calls == m.Requests, "%d calls for %d requests", m.Source.Calls, m.Requests)
		return
	}
	l.Check(name+": calls, hits and joins add up to the requests",
		m.Source.Calls+int64(m.Values[hits]+m.Values[joins]) == m.Requests,
		"%d calls, %.0f hits, %.0f joins for %d requests", m.Source.Calls, m.Values[hits], m.Values[joins], m.Requests)
}

// checkGrowth checks that a larger cache hits more often.
func checkGrowth(l *scenario.Lab) {
	for _, skew := range zipfSkews {
		var ratios []float64
		grows := true
		for _, m := range l.Measurements(zipfVariant(skew), "") {
			if n := len(ratios); n > 0 && m.Values[hits] <= ratios[n-1]*float64(m.Requests) {
				grows = false
			}
			ratios = append(ratios, m.Values[hitRatio])
		}
		l.Check(zipfVariant(skew)+": the hit ratio grows with the cache", grows, "%.3f", ratios)
	}
}

// zipfTable compares the hit ratios with those of an ideal cache, which knows the
// most requested keys in advance and keeps them.
func zipfTable(l *scenario.Lab, keys int, rooms []float64) result.Table {
	t := result.Table{Title: "Hits per hundred requests, and in parentheses those of a cache that permanently holds the most requested keys", Head: []string{"Skew"}}
	for _, room := range rooms {
		t.Head = append(t.Head, fmt.Sprintf("room for %g %%", room))
	}
	for _, skew := range zipfSkews {
		row := []string{fmt.Sprintf("%g", skew)}
		wanted := newRanks(keys, skew)
		for _, m := range l.Measurements(zipfVariant(skew), "") {
			most := zipfParams{Keys: keys, Room: m.X}.entries()
			row = append(row, fmt.Sprintf("%.1f (%.1f)", 100*m.Values[hitRatio], 100*wanted[most-1]))
		}
		t.Cells = append(t.Cells, row)
	}
	return t
}

// ranks[r] is the share of the requests for one of the first r+1 keys.
type ranks []float64

func newRanks(n int, skew float64) ranks {
	r := make(ranks, n)
	sum := 0.0
	for i := range r {
		sum += math.Pow(float64(i+1), -skew)
		r[i] = sum
	}
	for i := range r {
		r[i] /= sum
	}
	return r
}

// draw returns a key.
func (r ranks) draw(random *rand.Rand) int {
	u := random.Float64()
	return min(sort.Search(len(r), func(i int) bool { return r[i] > u }), len(r)-1)
}

func zipfService(ctx context.Context, o scenario.Options) (*scenario.Service, error) {
	var p zipfParams
	if err := o.Decode(&p); err != nil {
		return nil, err
	}
	meter := new(scenario.Meter)
	warm := false // set before the first request
	source := func(_ context.Context, key int) (int, error) {
		if warm {
			defer meter.Begin()()
			time.Sleep(p.Call)
		}
		return key, nil
	}
	none := func() map[string]float64 { return map[string]float64{hitRatio: 0} }
	s := &scenario.Service{Meter: meter, Values: none}
	get := source
	if o.Variant != unprotected {
		g, err := weir.New(source, weir.Options{TTL: time.Hour, MaxEntries: p.entries()})
		if err != nil {
			return nil, err
		}
		wanted, random := newRanks(p.Keys, p.Skew), rand.New(rand.NewPCG(2, 3))
		for range p.Seen {
			if _, err := g.Get(ctx, wanted.draw(random)); err != nil {
				return nil, errors.Join(err, g.Close(ctx))
			}
		}
		get = g.Get
		c := &counter{stats: g.Stats}
		s.Reset = func(context.Context) error { c.reset(); return nil }
		s.Values = func() map[string]float64 {
			v := c.values()
			v[hitRatio] = v[hits] / max(1, v[hits]+v[joins]+v[waitedLoads])
			return v
		}
	}
	warm = true
	s.Handler = keyHandler(get)
	return s, nil
}

// keyHandler serves the value that get returns for the key in the path.
func keyHandler(get func(context.Context, int) (int, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, err := keyOf(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		value, err := get(r.Context(), key)
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, "value %d\n", value)
	})
}
