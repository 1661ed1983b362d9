package reports_test

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
)

// counts returns the keys of h with counts instead of rates.
func counts(h inspect.HotKeys, of []inspect.HotKey) map[string]float64 {
	m := map[string]float64{}
	for _, k := range of {
		m[k.Key.(string)] = k.Rate * h.Window.Seconds()
	}
	return m
}

// wantCounts compares with a tolerance of one hundredth: no count fades by more
// within half a second.
func wantCounts(t *testing.T, what string, got map[string]float64, want map[string]float64) {
	t.Helper()
	same := len(got) == len(want)
	for k, n := range want {
		same = same && math.Abs(got[k]-n) <= 1e-2*n
	}
	if !same {
		t.Errorf("%s: %v; want %v", what, got, want)
	}
}

// Every call counts once, hit or not, and nothing else counts.
func TestO3_HotKeysByTraffic(t *testing.T) {
	o := rig.FourInstants
	o.HotKeys, o.NegativeTTL, o.FailureMemo.Transient.Initial = 10, time.Hour, time.Hour
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(0, weir.ErrNotFound)
		s.Get("negative")
		s.Get("negative")
		s.Set(0, rig.ErrDown)
		s.Get("failing")
		s.Get("failing")
		s.Set(100*ms, nil)
		a := s.Ask("joined")
		b := s.Ask("joined")
		<-a.Done
		<-b.Done
		s.G.Get(s.Context(), "joined")
		s.G.GetResult(s.Context(), "joined")
		s.G.GetMany(s.Context(), []string{"joined", "many", "many"})
		s.G.Refresh(s.Context(), "refreshed")
		gone, cancel := context.WithCancel(s.Context())
		cancel()
		s.G.Get(gone, "gone")
		for _, quiet := range []string{"set", "peeked", "joined"} {
			s.G.Set(s.Context(), quiet, 1)
			s.G.Peek(quiet)
			s.G.Expire(s.Context(), quiet)
			s.G.Invalidate(s.Context(), quiet)
		}
		h := s.G.HotKeys(100)
		want := map[string]float64{"negative": 2, "failing": 2, "joined": 5, "many": 1, "refreshed": 1, "gone": 1}
		wantCounts(s.T, "calls", counts(h, h.ByTraffic), want)
		if got := h.Requests * h.Window.Seconds(); math.Abs(got-12) > 0.1 {
			s.Errorf("%.2f calls in all; want 12", got)
		}
		if h := s.G.HotKeys(2); len(h.ByTraffic) != 2 || h.ByTraffic[0].Key != "joined" {
			s.Errorf("the busiest two are %v; want joined first", h.ByTraffic)
		}
	})
}

// A stale hit and its refresh are one call. The load time is that of all loads,
// including those in the background, with bulk loads divided evenly.
func TestO3_HotKeysByLoadTime(t *testing.T) {
	o := rig.FourInstants
	o.HotKeys, o.LoadTimeout = 10, 10*sec
	var b rig.Bulk
	rig.PlayFrom(t, o, func(src *weir.Source[string, int]) { src.LoadEntries = rig.EntriesOf(b.Load) }, func(s *rig.Scene) {
		loadTime := func(want map[string]float64) {
			s.Helper()
			synctest.Wait()
			h := s.G.HotKeys(10)
			wantCounts(s.T, "seconds of loads", counts(h, h.ByLoadTime), want)
		}
		s.Set(2*ms, nil)
		s.Get("k")
		b.Takes = 6 * ms
		s.G.GetMany(s.Context(), []string{"x", "y", "z"})
		s.Set(3*ms, rig.ErrDown)
		s.Get("failed")
		loadTime(map[string]float64{"k": 0.002, "x": 0.002, "y": 0.002, "z": 0.002, "failed": 0.003})

		s.Until(110 * sec) // k is stale
		s.Set(40*ms, nil)
		s.Get("k")
		s.Until(111 * sec)
		h := s.G.HotKeys(10)
		fade := func(at time.Duration) float64 { return math.Exp2(-float64(s.Now()-at) / float64(time.Minute)) }
		if got, want := counts(h, h.ByLoadTime)["k"], 0.002*fade(2*ms)+0.04*fade(110*sec+40*ms); math.Abs(got-want) > 1e-3*want {
			s.Errorf("k has %v s of loads; want %v", got, want)
		}
		if got, want := counts(h, h.ByTraffic)["k"], fade(0)+fade(110*sec); math.Abs(got-want) > 1e-3*want {
			s.Errorf("k has %v calls; want %v", got, want)
		}
	})
}

// A hung load is recorded at its timeout, before it has returned, and with no
// more than its total time when it returns.
func TestO3_HotKeysOfALoadThatHangs(t *testing.T) {
	rig.Tell(t, func(s *rig.Story) {
		m := &rig.Mill{Takes: 20 * sec, Deaf: true}
		g := s.Guard(m.Load, weir.Options{HotKeys: 3, LoadTimeout: 5 * sec})
		s.Get(s.Context(), g, "k")
		loadTime := func(at time.Duration, parts ...time.Duration) { // by their end and their length
			s.Helper()
			s.At(at)
			want := 0.0
			for i := 0; i < len(parts); i += 2 {
				want += parts[i+1].Seconds() * math.Exp2(-float64(at-parts[i])/float64(time.Minute))
			}
			h := g.HotKeys(3)
			if got := h.LoadTime * h.Window.Seconds(); math.Abs(got-want) > 1e-3*want {
				s.Errorf("after %v: %v s of loads; want %v", at, got, want)
			}
		}
		loadTime(4 * sec)
		loadTime(6*sec, 5*sec, 5*sec)
		loadTime(21*sec, 5*sec, 5*sec, 20*sec, 15*sec)
		if d := g.LoadTimes(); d.Count != 1 || d.Sum != 20*sec {
			s.Errorf("Loads = %d in %v; want 1 in 20s", d.Count, d.Sum)
		}
	})
}

// A value loaded by another instance counts as a call, not as a load.
func TestO3_HotKeysInAFleet(t *testing.T) {
	rig.InFleet(t, func(s *rig.Site) {
		all := s.Instances(2, func(o *weir.Options) { o.HotKeys = 3 })
		s.Get(all[0], "k", 0)
		s.Get(all[1], "k", 0)
		for i, loads := range []map[string]float64{{"k": 0.2}, {}} {
			h := all[i].HotKeys(3)
			wantCounts(s.T, "seconds of loads", counts(h, h.ByLoadTime), loads)
			wantCounts(s.T, "calls", counts(h, h.ByTraffic), map[string]float64{"k": 1})
		}
	})
}

// Random calls of every kind, compared with exact counts.
func TestO3_HotKeysAgainstExactCounts(t *testing.T) {
	for seed := range histories.Seeds(t, 3, 10) {
		rec := &rig.Recorder{}
		o := weir.Options{
			TTL: 10 * sec, RefreshAhead: 0.3, StaleWhileRevalidate: 5 * sec, StaleIfError: 20 * sec,
			NegativeTTL: 3 * sec, SoftTimeout: sec, HotKeys: 5, Observer: rec,
		}
		rnd := rand.New(rand.NewPCG(seed, 8))
		rig.Play(t, o, func(s *rig.Scene) {
			calls := map[string][]time.Duration{}
			keys := rig.SpringKeys(8)
			errs := []error{nil, nil, rig.ErrDown, weir.ErrNotFound}
			for range 500 {
				key := keys[rnd.IntN(1+rnd.IntN(len(keys)))]
				switch rnd.IntN(8) {
				case 0:
					s.Set(time.Duration(rnd.Int64N(int64(6*sec))), errs[rnd.IntN(4)])
				case 1:
					some := keys[:1+rnd.IntN(4)]
					for _, key := range some {
						calls[key] = append(calls[key], s.Now())
					}
					go s.G.GetMany(s.Context(), some)
				case 2:
					calls[key] = append(calls[key], s.Now())
					go s.G.Refresh(s.Context(), key)
				default:
					calls[key] = append(calls[key], s.Now())
					go s.G.Get(s.Context(), key)
				}
				s.Until(s.Now() + time.Duration(rnd.Int64N(int64(700*ms))))
			}
			s.Until(s.Now() + time.Minute)
			fade := func(at time.Duration) float64 { return math.Exp2(-float64(s.Now()-at) / float64(time.Minute)) }
			want, worked := map[string]float64{}, 0.0
			for key, at := range calls {
				for _, at := range at {
					want[key] += fade(at)
				}
			}
			for _, end := range rec.Ends {
				worked += end.Duration.Seconds() * fade(end.Start.Add(end.Duration).Sub(s.Start))
			}
			h := s.G.HotKeys(5)
			for key, got := range counts(h, h.ByTraffic) {
				if math.Abs(got-want[key]) > 1e-3*want[key] {
					s.Errorf("seed %d: %s has %v calls; want %v", seed, key, got, want[key])
				}
			}
			if got := h.LoadTime * h.Window.Seconds(); math.Abs(got-worked) > 1e-3*worked || worked == 0 {
				s.Errorf("seed %d: %v s of loads; want %v", seed, got, worked)
			}
			if len(h.ByTraffic) != 5 || len(h.ByLoadTime) == 0 {
				s.Errorf("seed %d: %+v; want five keys and some that were loaded", seed, h)
			}
		})
	}
}

// Without the option there are no hot keys, and calls are not counted.
func TestO3_HotKeysAreOffByDefault(t *testing.T) {
	rig.Play(t, rig.FourInstants, func(s *rig.Scene) {
		s.Prime("k")
		if h := s.G.HotKeys(10); h.Window != 0 || h.Requests != 0 || h.LoadTime != 0 || h.ByTraffic != nil || h.ByLoadTime != nil {
			s.Errorf("HotKeys = %+v; want none", h)
		}
	})
}

func TestO3_HotKeysAdvice(t *testing.T) {
	for want, o := range map[string]weir.Options{
		"":                        {TTL: time.Hour, HotKeys: 100},
		"may keep 160 keys alive": {TTL: time.Hour, HotKeys: 10, MaxEntries: 159},
	} {
		if a := strings.Join(o.Advice(), "; "); !strings.Contains(a, want) || want == "" && a != "" {
			t.Errorf("Advice = %q; want %q", a, want)
		}
	}
}
