package entries_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/contract/rig"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/limit"
)

// always is a RefreshBeta with which a hit practically always starts a refresh
// if the value's load took a millisecond or more: the probability that it does
// not is 10^-7.
const always = 1e12

// nearly is the allowed deviation of the share of n draws, each with probability
// p: 5 standard deviations, 3 draws if those are less than one, and the effect
// of 0.4 % of the load time. At most one run in a million exceeds it.
func nearly(p float64, n int) float64 {
	return 5*math.Sqrt(p*(1-p)/float64(n)) + 3/float64(n) + 0.004
}

// fewer returns a tenth of n, or n in a full run. The bounds depend on it: see nearly.
func fewer(n int) int { return histories.Count(n/10, n) }

// E2: a request with a time g left of the TTL starts a refresh with the
// probability P(-delta·beta·ln(U) >= g) = exp(-g/(delta·beta)), whichever
// method is called.
func TestE2EarlyRefreshHasTheProbabilityOfXFetch(t *testing.T) {
	n := fewer(2000)
	keys := rig.SpringKeys(n)
	for _, row := range []struct {
		delta time.Duration
		beta  float64
		left  time.Duration
	}{
		{sec, 1, 693 * ms}, // about a half
		{sec, 1, 2300 * ms},
		{sec, 1, 27 * sec}, // 10^-12
		{sec, 0.5, 693 * ms},
		{sec, 2, 693 * ms},
		{100 * ms, 1, 100 * ms},
		{100 * ms, 1, 28 * sec},
		{10 * time.Minute, 1, 59 * sec}, // a load of ten TTLs
		{10 * time.Minute, 1, 0},        // TTL is over
	} {
		o := weir.Options{TTL: 60 * sec, RefreshBeta: row.beta, StaleWhileRevalidate: sec, MaxRefreshes: n, LoadTimeout: time.Hour}
		want := math.Exp(-float64(row.left) / float64(row.delta) / row.beta)
		for how, ask := range map[string]func(s *rig.Scene){
			"Get": func(s *rig.Scene) {
				for _, key := range keys {
					s.G.Get(s.Context(), key)
				}
			},
			"GetResult": func(s *rig.Scene) {
				for _, key := range keys {
					s.Get(key)
				}
			},
			"GetMany": func(s *rig.Scene) { s.G.GetMany(s.Context(), keys) },
		} {
			rig.Play(t, o, func(s *rig.Scene) {
				s.Set(row.delta, nil)
				s.G.GetMany(s.Context(), keys)
				s.Until(row.delta + o.TTL - row.left)
				ask(s)
				got := float64(len(s.Loads())-n) / float64(n)
				if math.Abs(got-want) > nearly(want, n) {
					s.Errorf("%s, delta %v, beta %v, %v before the TTL: a share of %v refreshed; want %v", how, row.delta, row.beta, row.left, got, want)
				}
			})
		}
	}
}

// E2: with requests at random (Poisson, rate r), those that start a refresh
// with more than g left of the TTL T are Poisson too, of mean
//
//	L(g) = r·s·(exp(-g/s) - exp(-T/s)), s = delta·beta
//
// so that P(no early refresh) = exp(-L(0)), and the mean time by which the
// refresh is early is the integral of 1-exp(-L(g)) over g from 0 to T. One draw
// per entry instead of per request would make both nearly independent of r.
func TestE2EarlyRefreshUnderPoissonTraffic(t *testing.T) {
	for _, row := range []struct {
		rate, beta float64
		delta      time.Duration
		keys       int
	}{
		{0.25, 1, sec, 3000},
		{2, 1, sec, 2000},
		{2, 0.5, sec, 2000},
		{2, 2, sec, 1000},
		{20, 1, sec, 400},
		{20, 1, 100 * ms, 2000},
		{2, 1, 30 * sec, 300}, // the load takes half the TTL
	} {
		row.keys = fewer(row.keys)
		s := row.delta.Seconds() * row.beta
		wantNone, wantMean := xfetchTheory(row.rate, s, ttlOfTraffic.Seconds())
		o := weir.Options{TTL: ttlOfTraffic, RefreshBeta: row.beta, LoadTimeout: time.Hour}
		got := traffic(t, o, row.delta, row.rate, row.keys, xfetchReach(row.rate, s))
		n := float64(row.keys)
		if none := 1 - float64(got.early)/n; math.Abs(none-wantNone) > nearly(wantNone, row.keys) {
			t.Errorf("%+v: a share of %.4f had no early refresh; want %.4f", row, none, wantNone)
		}
		mean := got.ahead / n
		sd := math.Sqrt(max(got.ahead2/n-mean*mean, 0) / n)
		if math.Abs(mean-wantMean) > 5*sd+0.004*wantMean {
			t.Errorf("%+v: refreshed %.4f s early in the mean; want %.4f, with a deviation of %.4f", row, mean, wantMean, sd)
		}
	}
}

// E2: without RefreshBeta nothing is early, however often and late it is
// requested.
func TestE2NoEarlyRefreshWhenOff(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 60 * sec}, func(s *rig.Scene) {
		s.Set(20*sec, nil)
		s.Prime("k")
		s.Until(80*sec - 1)
		for range 10_000 {
			s.G.Get(s.Context(), "k")
		}
		s.WantLoads(1)
	})
}

// E2: a value that was set, or took no time to load, is refreshed only after
// its TTL, within its stale window.
func TestE2NoEarlyRefreshWithoutALoadTime(t *testing.T) {
	o := weir.Options{TTL: 60 * sec, RefreshBeta: always, StaleWhileRevalidate: 10 * sec}
	for _, row := range []struct {
		name string
		fill func(s *rig.Scene)
	}{
		{"loaded at once", func(s *rig.Scene) { s.Prime("k") }},
		{"set", func(s *rig.Scene) { s.G.Set(s.Context(), "k", 1) }},
		{"set after Invalidate", func(s *rig.Scene) {
			s.Set(sec, nil)
			s.Prime("k")
			s.G.Invalidate(s.Context(), "k")
			s.G.Set(s.Context(), "k", 1)
		}},
		{"set after a not-found", func(s *rig.Scene) {
			s.Set(sec, weir.ErrNotFound)
			s.Get("k")
			s.G.Set(s.Context(), "k", 1)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			rig.Play(t, o, func(s *rig.Scene) {
				row.fill(s)
				filled, before := s.Now(), len(s.Loads())
				s.Until(filled + 60*sec - 1)
				for range 1000 {
					s.G.Get(s.Context(), "k")
				}
				s.WantLoads(before)
				s.Until(filled + 60*sec)
				s.G.Get(s.Context(), "k")
				s.WantLoads(before + 1)
				s.Until(filled + 70*sec)
			})
		})
	}
}

// E2: delta is the time of the function alone, not that of the wait for the
// limiter before it.
func TestE2LoadTimeIsWithoutTheAdmission(t *testing.T) {
	o := weir.Options{TTL: 60 * sec, RefreshBeta: always, Limiter: rig.LimiterFunc(func(context.Context) (limit.Permit, error) {
		time.Sleep(30 * sec)
		return limit.Permit{}, nil
	})}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Prime("k")
		s.Until(90*sec - 1)
		s.Get("k")
		s.Until(150 * sec) // the limiter would have let a refresh in
		s.WantLoads(1)
	})
}

// E2: a value that was Set keeps the load time of the one it replaces, also
// when that has expired; and so does one that Expire leaves.
func TestE2SetKeepsTheLoadTime(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 60 * sec, RefreshBeta: always, StaleWhileRevalidate: 10 * sec}, func(s *rig.Scene) {
		s.Set(sec, nil)
		s.Prime("k")
		s.G.Set(s.Context(), "k", 7)
		s.Until(100 * sec)
		s.G.Expire(s.Context(), "k")
		s.G.Set(s.Context(), "k", 8)
		s.Until(101 * sec)
		s.Want(s.Get("k"), rig.Fresh(8, sec))
		s.WantLoads(2)
		s.Until(103 * sec)
	})
}

// E2: a load that finds the value not modified is measured like any other.
func TestE2NotModifiedMeasuresTheLoadTime(t *testing.T) {
	for _, row := range []struct {
		first, second time.Duration
		loads         int
	}{
		{sec, 0, 2},
		{0, sec, 3},
	} {
		rig.Play(t, weir.Options{TTL: 60 * sec, RefreshBeta: always}, func(s *rig.Scene) {
			s.Spring.Say = func(_ string, n int) (weir.Entry[int], error) {
				return weir.Entry[int]{Value: n, NotModified: n > 1}, nil
			}
			s.Set(row.first, nil)
			s.Prime("k")
			s.Set(row.second, nil)
			s.G.Refresh(s.Context(), "k")
			s.Until(10 * sec)
			s.Get("k")
			s.WantLoads(row.loads)
			s.Until(20 * sec)
		})
	}
}

// E2: the time of a bulk load counts for each of its keys, and their refresh is
// one bulk load again.
func TestE2BulkLoadMeasuresTheLoadTime(t *testing.T) {
	var calls []string
	edit := func(src *weir.Source[string, int]) {
		src.LoadEntries = func(_ context.Context, keys []string, _ []weir.Previous[int]) (map[string]weir.Entry[int], error) {
			calls = append(calls, fmt.Sprint(len(keys)))
			time.Sleep(sec)
			m := map[string]weir.Entry[int]{}
			for _, key := range keys {
				m[key] = weir.Entry[int]{Value: len(calls)}
			}
			return m, nil
		}
	}
	rig.PlayFrom(t, weir.Options{TTL: 60 * sec, RefreshBeta: always}, edit, func(s *rig.Scene) {
		keys := rig.SpringKeys(3)
		s.G.GetMany(s.Context(), keys)
		s.Until(10 * sec)
		s.G.GetMany(s.Context(), keys)
		s.Until(12 * sec)
		s.WantLoads(0)
		if fmt.Sprint(calls) != "[3 3]" {
			s.Errorf("bulk loads of %v keys; want [3 3]", calls)
		}
	})
}

// E2: after a failed or refused refresh the key is not refreshed for
// RefreshRetry, although every hit would draw one. Then hits draw again.
func TestE2FailedEarlyRefreshPausesForRefreshRetry(t *testing.T) {
	o := weir.Options{TTL: 60 * sec, RefreshBeta: always, RefreshRetry: 3 * sec}
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(sec, nil)
		s.Prime("k")
		s.Set(sec, rig.ErrDown)
		for at := 10 * sec; at <= 20*sec; at += sec / 2 {
			s.Until(at)
			s.Want(s.Get("k"), rig.Fresh(1, at-sec))
		}
		var at []time.Duration
		for _, c := range s.Loads()[1:] {
			at = append(at, c.At)
		}
		// Each took a second, and the pause, 3 s and then 6 s, counts from its end.
		if want := []time.Duration{10 * sec, 14 * sec}; fmt.Sprint(at) != fmt.Sprint(want) {
			s.Errorf("refreshes at %v; want %v", at, want)
		}
	})
	l := &rig.Gate{}
	o.Limiter = l
	rig.Play(t, o, func(s *rig.Scene) {
		s.Set(sec, nil)
		s.Prime("k")
		l.Shut.Store(true)
		for at := 10 * sec; at <= 20*sec; at += sec / 2 {
			s.Until(at)
			s.Want(s.Get("k"), rig.Fresh(1, at-sec))
		}
		if n := s.G.Stats().RefreshesSkipped; n != 4 { // at 10, 13, 16 and 19 s
			s.Errorf("%d refreshes were refused; want 4", n)
		}
	})
}

// E2: after a failed refresh of a value whose draws are mostly negative, they
// still are: the end of the pause does not start a refresh.
func TestE2DrawsGoOnAfterAFailedRefresh(t *testing.T) {
	n := fewer(2000)
	rig.Play(t, weir.Options{TTL: 60 * sec, RefreshBeta: 1, MaxRefreshes: n}, func(s *rig.Scene) {
		keys := rig.SpringKeys(n)
		s.Set(sec, nil)
		s.G.GetMany(s.Context(), keys)
		s.Set(0, rig.ErrDown)
		s.Until(55 * sec)
		for _, key := range keys { // fails, and pauses each key to 56 s
			if r := s.G.RefreshResult(s.Context(), key); !errors.Is(r.Err, rig.ErrDown) {
				s.Fatalf("Refresh = %v; want %v", r.Err, rig.ErrDown)
			}
		}
		for _, step := range []struct {
			at   time.Duration
			want float64
		}{{56*sec - 1, 0}, {59 * sec, math.Exp(-2)}} {
			s.Until(step.at)
			before := len(s.Loads())
			s.G.GetMany(s.Context(), keys)
			if got := float64(len(s.Loads())-before) / float64(n); math.Abs(got-step.want) > nearly(step.want, n) {
				s.Errorf("at %v: a share of %v refreshed; want %v", step.at, got, step.want)
			}
		}
	})
}

// E2: the contract's rules for refreshes apply to drawn ones: one for all hits,
// within MaxRefreshes.
func TestE2EarlyRefreshKeepsTheBounds(t *testing.T) {
	rig.Play(t, weir.Options{TTL: 60 * sec, RefreshBeta: always, MaxRefreshes: 2}, func(s *rig.Scene) {
		s.Set(sec, nil)
		keys := rig.SpringKeys(3)
		s.G.GetMany(s.Context(), keys)
		for range 1000 {
			for _, key := range keys {
				go s.G.Get(s.Context(), key)
			}
		}
		s.WantLoads(3 + 2)
		if st := s.G.Stats(); st.Refreshing != 2 || st.RefreshesSkipped == 0 || st.Hits != 3000 {
			s.Errorf("Stats: Refreshing, RefreshesSkipped, Hits = %d, %d, %d; want 2, some, 3000", st.Refreshing, st.RefreshesSkipped, st.Hits)
		}
		s.Until(10 * sec)
	})
}

// E2: a Get late enough to draw answers from memory only if the entry may still
// be served.
func TestE2LateGetIsAHitOfAFreshValueOnly(t *testing.T) {
	o := weir.Options{TTL: 60 * sec, NegativeTTL: 60 * sec, RefreshBeta: always}
	for _, row := range []struct {
		name string
		then func(s *rig.Scene)
		want int
		err  error
	}{
		{"fresh", func(s *rig.Scene) { s.Until(60 * sec) }, 1, nil},
		{"expired", func(s *rig.Scene) { s.Until(61 * sec) }, 2, nil},
		{"tag invalidated", func(s *rig.Scene) { s.G.InvalidateTags(s.Context(), "t") }, 2, nil},
		{"not found", func(s *rig.Scene) {
			s.Spring.Say = nil
			s.Set(sec, weir.ErrNotFound)
			s.G.Refresh(s.Context(), "k")
		}, 0, weir.ErrNotFound},
	} {
		rig.Play(t, o, func(s *rig.Scene) {
			s.Spring.Say = func(_ string, n int) (weir.Entry[int], error) {
				return weir.Entry[int]{Value: n, Tags: []string{"t"}}, nil
			}
			s.Set(sec, nil)
			s.Prime("k")
			row.then(s)
			if v, err := s.G.Get(s.Context(), "k"); v != row.want || !errors.Is(err, row.err) {
				s.Errorf("%s: Get = %d, %v; want %d, %v", row.name, v, err, row.want, row.err)
			}
			s.Until(100 * sec)
			want := 2
			if row.err != nil {
				want = 3 // a negative hit draws too
			}
			s.WantLoads(want)
		})
	}
}

// ttlOfTraffic is the TTL of all keys in traffic.
const ttlOfTraffic = 60 * sec

// xfetchReach is how long before the TTL the first refresh is drawn, except for
// one key in 150,000: the g with L(g) = e^-12.
func xfetchReach(rate, s float64) time.Duration {
	reach := s * min(28, math.Log(max(rate*s, 1e-9))+12)
	return time.Duration(min(reach, ttlOfTraffic.Seconds()) * 1e9)
}

// xfetchTheory returns P(no early refresh) and the mean time by which the refresh
// is early, with the formulas at TestE2EarlyRefreshUnderPoissonTraffic.
func xfetchTheory(rate, s, ttl float64) (none, mean float64) {
	l := func(g float64) float64 { return rate * s * (math.Exp(-g/s) - math.Exp(-ttl/s)) }
	const steps = 200_000
	for i := range steps { // midpoints
		mean += 1 - math.Exp(-l(ttl*(float64(i)+0.5)/steps))
	}
	return math.Exp(-l(0)), mean * ttl / steps
}

// A tally is what traffic observed at the first expiry of its keys.
type tally struct {
	early         int     // keys that were refreshed before it
	ahead, ahead2 float64 // sums of the lead in seconds, and of its squares
	waited        int     // callers that met an expired value, and waited
	loads         int
}

// traffic loads n keys at once, by loads of time delta, and sends each of them
// random requests, a Poisson process with the given rate per second, until it
// has been loaded again. It skips requests earlier than reach before the TTL,
// which have no effect.
func traffic(t *testing.T, o weir.Options, delta time.Duration, rate float64, n int, reach time.Duration) (sum tally) {
	t.Helper()
	o.MaxRefreshes = n
	var mu sync.Mutex
	begins := map[string]time.Time{} // of a key's last load; guarded by mu
	note := func(src *weir.Source[string, int]) {
		load := src.LoadEntry
		src.LoadEntry = func(ctx context.Context, key string, prev weir.Previous[int]) (weir.Entry[int], error) {
			mu.Lock()
			begins[key] = time.Now()
			mu.Unlock()
			return load(ctx, key, prev)
		}
	}
	rig.PlayFrom(t, o, note, func(s *rig.Scene) {
		keys := rig.SpringKeys(n)
		s.Set(delta, nil)
		s.G.GetMany(s.Context(), keys)
		expiry := s.Now() + ttlOfTraffic
		begun := func(key string) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return begins[key].Sub(s.Start)
		}
		rnd := rand.New(rand.NewPCG(1, uint64(rate*1e6)))
		open := append([]string(nil), keys...)
		waits := make(chan bool, 1<<16)
		for at := expiry - reach; len(open) > 0; {
			at += time.Duration(rnd.ExpFloat64() / (rate * float64(len(open))) * 1e9)
			i := rnd.IntN(len(open))
			time.Sleep(at - s.Now()) // before the check: otherwise a load that is about to begin is missed, and the key requested again
			if b := begun(open[i]); b > 0 && (at >= b+delta || b+delta <= expiry) {
				open[i] = open[len(open)-1]
				open = open[:len(open)-1]
			} else if at < expiry {
				s.G.Get(s.Context(), open[i])
			} else {
				go func(key string) { waits <- s.Get(key).State == weir.StateLoaded }(open[i])
			}
		}
		time.Sleep(10 * delta) // until all have their answers
		for _, c := range s.Loads()[n:] {
			sum.loads++
			if ahead := (expiry - c.At).Seconds(); ahead > 0 {
				sum.early++
				sum.ahead += ahead
				sum.ahead2 += ahead * ahead
			}
		}
		for close(waits); len(waits) > 0; {
			if <-waits {
				sum.waited++
			}
		}
	})
	return sum
}
