package hotkeys_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/histories"
	"github.com/weir-go/weir/internal/hotkeys"
)

// An exact count keeps every key. A Sketch is compared with it.
type exact struct {
	of    map[int]float64
	total float64
	at    int64
}

func (e *exact) fadeTo(now int64) {
	f := math.Exp2(-float64(now-e.at) / float64(time.Minute))
	for k := range e.of {
		e.of[k] *= f
	}
	e.total *= f
	e.at = now
}

func (e *exact) add(key int, amount float64, now int64) {
	if now != e.at {
		e.fadeTo(now)
	}
	e.of[key] += amount
	e.total += amount
}

// want compares the reported keys of one kind with the exact counts. No rate is
// too low, or too high by more than its Excess, which is at most the share of one
// counter. Every key with more than that share, and more than the last reported
// key, is reported.
func (e *exact) want(t *testing.T, what string, keys []inspect.HotKey, rate float64, window time.Duration, asked, counters int) {
	t.Helper()
	const tiny = 1e-6
	w := window.Seconds()
	if d := math.Abs(rate*w - e.total); d > tiny*(1+e.total) {
		t.Errorf("%s: %v in all; want %v", what, rate*w, e.total)
	}
	told, last := map[any]bool{}, math.Inf(1)
	for _, k := range keys {
		is := e.of[k.Key.(int)]
		if low, high := (k.Rate-k.Excess)*w, k.Rate*w; is < low-tiny*(1+is) || is > high+tiny*(1+is) {
			t.Errorf("%s: key %v is reported between %v and %v; want %v", what, k.Key, low, high, is)
		}
		if k.Excess*w > e.total/float64(counters)*(1+tiny) {
			t.Errorf("%s: key %v may be too high by %v; want at most a %dth of %v", what, k.Key, k.Excess*w, counters, e.total)
		}
		if k.Rate > last || told[k.Key] {
			t.Errorf("%s: key %v is out of order, or reported twice: %v", what, k.Key, keys)
		}
		told[k.Key], last = true, k.Rate
	}
	if len(keys) < asked {
		last = 0
	}
	for k, is := range e.of {
		if !told[k] && is > (1+tiny)*max(e.total/float64(counters), last*w) && is > 1e-8 {
			t.Errorf("%s: key %d has %v of %v and is not reported: %v", what, k, is, e.total, keys)
		}
	}
}

// Random calls and loads, of few keys and of many, in bursts and after pauses of
// hours, compared with exact counts.
func TestO3_HistoryAgainstExactCounts(t *testing.T) {
	for seed := range histories.Seeds(t, 60, 600) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		asked := 1 + rnd.IntN(20)
		now := rnd.Int64N(1000 * sec)
		s := hotkeys.New[int](asked, now)
		calls, loads := &exact{of: map[int]float64{}, at: now}, &exact{of: map[int]float64{}, at: now}
		zipf := rand.NewZipf(rnd, 1.05+rnd.Float64(), 1, uint64(1+rnd.IntN(2000)))
		began := now
		for range 3000 {
			key := int(zipf.Uint64())
			switch rnd.IntN(20) {
			case 0:
				now += rnd.Int64N(3 * sec)
			case 1:
				if rnd.IntN(40) == 0 {
					now += rnd.Int64N(3 * 3600 * sec)
				}
			case 2, 3:
				took := time.Duration(rnd.ExpFloat64() * float64(time.Second))
				s.Load(key, took, now)
				loads.add(key, took.Seconds(), now)
			default:
				weight := uint64(1 + rnd.IntN(3))
				s.Call(key, weight, now)
				calls.add(key, float64(weight), now)
			}
			if rnd.IntN(300) == 0 {
				s.Check(t)
				calls.fadeTo(now)
				loads.fadeTo(now)
				h := s.HotKeys(asked, now)
				calls.want(t, "calls", h.ByTraffic, h.Requests, h.Window, asked, s.Counters())
				loads.want(t, "loads", h.ByLoadTime, h.LoadTime, h.Window, asked, s.Counters())
				if most := time.Duration(math.Ceil(float64(time.Minute) / math.Ln2)); h.Window < time.Second || h.Window > most || int64(h.Window) > max(now-began, sec) {
					t.Errorf("the window is %v after %v; want from 1s to that, and at most %v", h.Window, time.Duration(now-began), most)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// With Zipf-distributed calls of a hundred thousand keys, the busiest keys are
// found in order, although there is only one counter per several hundred keys and
// most calls are not sampled.
func TestO3_HeavyHittersUnderZipf(t *testing.T) {
	for _, exponent := range []float64{1.01, 1.2} {
		t.Run(fmt.Sprint(exponent), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(11, 12))
			zipf := rand.NewZipf(rnd, exponent, 1, 100_000)
			s := hotkeys.New[int](40, 0)
			const perSecond, seconds = 200_000, 20
			counts, now := map[int]float64{}, int64(0)
			for i := range uint64(perSecond * seconds) {
				key := int(zipf.Uint64())
				counts[key]++
				now += rnd.Int64N(2 * sec / perSecond)
				call(s, key, now, i)
			}
			s.Check(t)
			if s.Share() < 16 {
				t.Fatalf("one of %d calls is sampled; want one of 16 or fewer", s.Share())
			}
			h := s.HotKeys(20, now)
			if got, want := h.Requests, float64(perSecond); math.Abs(got/want-1) > 0.02 {
				t.Errorf("%.0f calls per second; want %.0f within 2 %%", got, want)
			}
			for i, k := range h.ByTraffic {
				// Keys are numbered by how busy they are. A neighbor may come
				// before it.
				rate := counts[k.Key.(int)] / seconds
				if n := k.Key.(int); i < 8 && (n < i-1 || n > i+1) || n > 40 {
					t.Errorf("place %d has key %d; want about %d", i, n, i)
				}
				if i < 8 && (k.Rate < 0.9*rate || k.Rate-k.Excess > 1.1*rate) {
					t.Errorf("key %v has %.0f calls per second, at most %.0f too high; want %.0f", k.Key, k.Rate, k.Excess, rate)
				}
			}
			if len(h.ByTraffic) != 20 {
				t.Errorf("%d keys are reported; want 20", len(h.ByTraffic))
			}
		})
	}
}

// A key that is no longer called fades by half per minute, is overtaken by keys
// that are called, and is not reported after half an hour.
func TestO3_HotIsWhatIsHotNow(t *testing.T) {
	s := hotkeys.New[string](2, 0)
	turn := uint64(0)
	run := func(key string, from, to, perSecond int64) {
		for now := from * sec; now < to*sec; now += sec / perSecond {
			call(s, key, now, turn)
			turn++
		}
	}
	rate := func(h inspect.HotKeys, key string) float64 {
		for _, k := range h.ByTraffic {
			if k.Key == key {
				return k.Rate
			}
		}
		return 0
	}
	wantRate := func(at int64, key string, want, within float64) {
		t.Helper()
		if got := rate(s.HotKeys(2, at*sec), key); math.Abs(got-want) > within {
			t.Errorf("after %d s %q has %.2f calls per second; want %.2f", at, key, got, want)
		}
	}
	run("old", 0, 600, 100)
	wantRate(600, "old", 100, 1)
	wantRate(660, "old", 50, 1)
	run("new", 660, 720, 60)
	wantRate(720, "old", 25, 0.5)
	wantRate(720, "new", 30, 1)
	if h := s.HotKeys(1, 720*sec); len(h.ByTraffic) != 1 || h.ByTraffic[0].Key != "new" {
		t.Errorf("the busiest is %v; want new", h.ByTraffic)
	}
	wantRate(720+600, "new", 30./1024, 0.01)
	if h := s.HotKeys(2, 720*sec+3600*sec); len(h.ByTraffic) != 0 || h.Requests > 1e-9 {
		t.Errorf("after an hour %+v; want nothing", h)
	}
	const year = 365 * 24 * 3600
	run("later", year, year+60, 100)
	wantRate(year+60, "later", 50, 1)
	s.Check(t)
}
