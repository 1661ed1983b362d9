package scenarios

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/lab/load"
	"github.com/weir-go/weir/lab/result"
	"github.com/weir-go/weir/lab/scenario"
)

var thunderingExpiry = scenario.Scenario{
	Name:    "thundering-expiry",
	Title:   "Ten thousand keys that expire together",
	Asks:    "A cache was filled all at once, as after a deployment, so it expires all at once. How many calls reach the source, and who waits for them?",
	Service: expiryService,
	Run:     runExpiry,
}

// The variants. All are weir; the first has only a TTL.
const (
	ttlAlone    = "TTL alone"
	ttlJitter   = "weir jitter"
	ahead       = "weir refresh-ahead"
	xFetch      = "weir XFetch"
	xFetchEarly = "weir XFetch, beta 50"
)

// expiryOptions returns the options of a variant.
func expiryOptions(variant string, ttl time.Duration) weir.Options {
	switch variant {
	case ttlJitter:
		return weir.Options{TTL: ttl, TTLJitter: 0.5}
	case ahead:
		return weir.Options{TTL: ttl, TTLJitter: 0.5, RefreshAhead: 0.2, StaleWhileRevalidate: time.Minute}
	case xFetch:
		return weir.Options{TTL: ttl, RefreshBeta: 1}
	case xFetchEarly:
		return weir.Options{TTL: ttl, RefreshBeta: 50}
	default:
		return weir.Options{TTL: ttl}
	}
}

// expiryParams configure a service.
type expiryParams struct {
	Keys   int
	TTL    time.Duration
	Call   time.Duration // duration of a call to the source
	AtOnce int           // calls that the source runs at a time; the others wait there
}

// slow is the longest latency of a response that did not wait for the source.
const slow = 10 * time.Millisecond

func runExpiry(ctx context.Context, l *scenario.Lab) error {
	p := scenario.Size(l,
		expiryParams{Keys: 10_000, TTL: 8 * time.Second, Call: 20 * time.Millisecond, AtOnce: 40},
		expiryParams{Keys: 200, TTL: 300 * time.Millisecond, Call: 5 * time.Millisecond, AtOnce: 40})
	spec := load.Spec{
		Mode: load.Open, Rate: scenario.Size(l, 5000.0, 400), Duration: scenario.Size(l, 20*time.Second, time.Second),
		URLs: keyPaths(p.Keys), Pick: load.Zipf, Skew: 0.99, Seed: 1,
	}
	for _, variant := range []string{ttlAlone, ttlJitter, ahead, xFetch, xFetchEarly} {
		s, err := l.Serve(ctx, variant, p)
		if err != nil {
			return err
		}
		m, err := l.Measure(ctx, s, scenario.Job{Load: spec})
		if err != nil {
			return err
		}
		l.Check(variant+": no request fails", m.Failures == 0, "%d of %d failed", m.Failures, m.Requests)
		l.Check(variant+": each request loaded, joined a load or hit", accounted(m) == m.Requests, "%d of %d", accounted(m), m.Requests)
		if err := s.Stop(); err != nil {
			return err
		}
	}
	judgeExpiry(l)
	l.Table(expiryTable(l))
	l.Note("The source runs %d calls at a time for %v each, which is %.0f calls/s; the others wait there. All keys are loaded at once before the load begins.",
		p.AtOnce, p.Call, float64(p.AtOnce)/p.Call.Seconds())
	l.Note("Jitter spreads the calls, but readers still wait: entries have shorter lives, so slightly more readers miss. With refresh-ahead they do not wait.")
	l.Note("XFetch takes the load time into account: with beta 1 a key is refreshed early if it is requested about once per %v. The many keys that are requested once per second still expire, so it hardly lowers the peak here. A larger beta refreshes those too, and spreads them.", p.Call)
	return nil
}

// judgeExpiry records the checks.
func judgeExpiry(l *scenario.Lab) {
	kept := l.One(ahead)
	l.Check("refresh-ahead: no request waits for the source", requestsThatWaited(kept) == 0, "%.0f of %d requests", requestsThatWaited(kept), kept.Requests)
	// XFetch with beta 1 is in the table, but not judged. Its peak is about as high
	// as that of a TTL alone, and the position of the expiry within an interval makes
	// a larger difference.
	alone := peak(l.One(ttlAlone))
	for _, most := range []struct {
		variant string
		share   float64
	}{{ttlJitter, 0.7}, {ahead, 0.7}, {xFetchEarly, 0.7}} {
		p := peak(l.One(most.variant))
		l.CheckTime(most.variant+": the highest number of calls in 100 ms is at most "+fmt.Sprintf("%g", most.share)+" of the number with a TTL alone",
			p <= most.share*alone, "%.0f against %.0f", p, alone)
	}
	l.CheckTime("refresh-ahead: at most 1 % of the answers take longer than "+slow.String(), shareAbove(kept, slow) <= 0.01, "%.2f %%", 100*shareAbove(kept, slow))
}

// expiryTable shows what the charts do not.
func expiryTable(l *scenario.Lab) result.Table {
	t := result.Table{
		Title: "Calls to the source, and requests that waited",
		Head:  []string{"Variant", "calls", "most in 100 ms", "waiting at the source, at most", "requests that waited, %", "answers above " + slow.String() + ", %", "slowest, ms"},
	}
	for _, variant := range []string{ttlAlone, ttlJitter, ahead, xFetch, xFetchEarly} {
		m := l.One(variant)
		slowest := "–"
		if m.Latency != nil {
			slowest = fmt.Sprintf("%.0f", m.Latency.Slowest)
		}
		t.Cells = append(t.Cells, []string{
			variant, strconv.FormatInt(m.Source.Calls, 10), fmt.Sprintf("%.0f", peak(m)), fmt.Sprintf("%.0f", highest(m, result.QueueDepth)),
			fmt.Sprintf("%.1f", 100*requestsThatWaited(m)/float64(max(1, m.Requests))), fmt.Sprintf("%.1f", 100*shareAbove(m, slow)), slowest,
		})
	}
	return t
}

// requestsThatWaited is the number of requests that waited for a load.
func requestsThatWaited(m result.Measurement) float64 { return m.Values[joins] + m.Values[waitedLoads] }

// peak is the highest number of calls to the source in one interval.
func peak(m result.Measurement) float64 {
	return highest(m, result.CallsAtSource) * scenario.Interval.Seconds()
}

// highest is the highest value of a series, 0 if there is none.
func highest(m result.Measurement, series string) float64 {
	most := 0.0
	for _, s := range m.Series {
		if s.Name == series {
			most = max(most, slices.Max(append(s.Values, 0)))
		}
	}
	return most
}

// shareAbove is the share of the successful responses that took longer than d. The
// distribution has steps, so the result is exact to the next one.
func shareAbove(m result.Measurement, d time.Duration) float64 {
	if m.Latency == nil {
		return 0
	}
	share := 0.0
	for _, p := range m.Latency.Distribution {
		if p.MS <= d.Seconds()*1000 {
			share = p.Share
		}
	}
	return 1 - share
}

// A boundedSource runs a bounded number of calls at a time.
type boundedSource struct {
	meter   *scenario.Meter
	call    time.Duration
	places  chan struct{}
	waiting atomic.Int64
	filling atomic.Bool // the cache is being filled: calls do not wait and are not counted
}

func (s *boundedSource) load(ctx context.Context, key int) (int, error) {
	if s.filling.Load() {
		time.Sleep(s.call)
		return key, nil
	}
	defer s.meter.Begin()()
	s.waiting.Add(1)
	select {
	case s.places <- struct{}{}:
		s.waiting.Add(-1)
	case <-ctx.Done():
		s.waiting.Add(-1)
		return 0, context.Cause(ctx)
	}
	defer func() { <-s.places }()
	time.Sleep(s.call)
	return key, nil
}

func expiryService(_ context.Context, o scenario.Options) (*scenario.Service, error) {
	var p expiryParams
	if err := o.Decode(&p); err != nil {
		return nil, err
	}
	source := &boundedSource{meter: new(scenario.Meter), call: p.Call, places: make(chan struct{}, p.AtOnce)}
	g, err := weir.New(source.load, expiryOptions(o.Variant, p.TTL))
	if err != nil {
		return nil, err
	}
	counts := &counter{stats: g.Stats}
	return &scenario.Service{
		Meter:   source.meter,
		Gauges:  map[string]func() float64{result.QueueDepth: func() float64 { return float64(source.waiting.Load()) }},
		Values:  counts.values,
		Handler: keyHandler(g.Get),
		Reset: func(ctx context.Context) error {
			source.filling.Store(true)
			defer source.filling.Store(false)
			err := fill(ctx, g, p.Keys)
			counts.reset()
			return err
		},
	}, nil
}

// fill loads all keys at once.
func fill(ctx context.Context, g *weir.Guard[int, int], keys int) error {
	if err := g.InvalidateAll(ctx); err != nil {
		return err
	}
	all := make([]int, keys)
	for i := range all {
		all[i] = i
	}
	for _, r := range g.GetMany(ctx, all) { // without a LoadMany it starts one load per key
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}
