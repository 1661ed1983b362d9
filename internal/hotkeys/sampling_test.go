package hotkeys_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/weir-go/weir/internal/hotkeys"
)

// Few calls are all sampled. Of many, a few thousand per second are sampled, and
// their weights add up to the number of calls.
func TestO3_SamplingAdaptsAndIsUnbiased(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	s := hotkeys.New[int](5, 0)
	now, turn := int64(0), uint64(0)
	for _, perSecond := range []int64{10, 1000, 4000, 20_000, 500_000, 3_000_000, 50_000, 100, 10} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			// The share settles for one second; then measuring begins.
			var calls, samples, sum float64
			for end, settled := now+2*sec, now+sec; now < end; {
				now += 1 + rnd.Int64N(2*sec/perSecond)
				turn++
				w := s.Sample(now, turn)
				if w > 0 {
					s.Call(0, w, now)
				}
				if now >= settled {
					calls++
					sum += float64(w)
					samples += float64(min(w, 1))
				}
			}
			if samples > 4096*1.1 || samples < min(calls, 900) {
				t.Errorf("%.0f samples of %.0f calls in a second; want at most 4096, and 1000 or all", samples, calls)
			}
			if perSecond <= 1000 && samples != calls {
				t.Errorf("%.0f samples of %.0f calls; want all", samples, calls)
			}
			// Independent random samples would have this standard deviation.
			dev := math.Sqrt(calls * float64(s.Share()-1))
			if math.Abs(sum-calls) > 4*dev+1e-9 {
				t.Errorf("samples stand for %.0f calls; want %.0f, give or take %.0f", sum, calls, 4*dev)
			}
		})
	}
}

// Calls in step with each other, at one instant or at a steady pace, key after
// key, each get their proper share of the samples.
func TestO3_SamplingHasNoFavourites(t *testing.T) {
	for name, pace := range map[string]func(i int64) int64{
		"one instant": func(int64) int64 { return 77 },
		"100 ns":      func(i int64) int64 { return 100 * i },
		"64 ns":       func(i int64) int64 { return 64 * i },
		"1 ms ticks":  func(i int64) int64 { return i / 4000 * 1_000_000 },
	} {
		for _, keys := range []int64{7, 64} {
			t.Run(fmt.Sprintf("%s, %d keys", name, keys), func(t *testing.T) {
				s := hotkeys.New[int64](10, 0)
				share := map[int64]float64{}
				const calls = 4_000_000
				for i := range int64(calls) {
					now := pace(i)
					if w := s.Sample(now, uint64(i)); w > 0 {
						s.Call(i%keys, w, now)
						share[i%keys] += float64(w)
					}
				}
				for k := range keys {
					if got := share[k] / calls * float64(keys); got < 0.7 || got > 1.3 {
						t.Errorf("key %d has %.2f times its share; want 1, give or take 0.3", k, got)
					}
				}
			})
		}
	}
}

// A Sketch keeps at most as many keys alive as it has counters, and releases
// those that were not called for a long time.
func TestO3_KeysAreKeptByCountOnly(t *testing.T) {
	type key [64]byte // not so small that the allocator puts several into one block
	s := hotkeys.New[*key](4, 0)
	all := make([]weak.Pointer[key], 10_000)
	for i := range all {
		p := new(key)
		all[i] = weak.Make(p)
		s.Call(p, 1, int64(i))
		s.Load(p, time.Second, int64(i))
	}
	alive := func() (n int) {
		runtime.GC()
		for _, p := range all {
			if p.Value() != nil {
				n++
			}
		}
		return n
	}
	if n := alive(); n > 2*s.Counters() {
		t.Errorf("%d keys are kept; want at most %d", n, 2*s.Counters())
	}
	p := new(key)
	s.Call(p, 1, 3*3600*sec)
	s.Load(p, time.Second, 3*3600*sec)
	if n := alive(); n > 0 {
		t.Errorf("%d keys of three hours ago are kept; want none", n)
	}
	s.Check(t)
	runtime.KeepAlive(s)
}

// A key that is not equal to itself could never be found again, so it gets no
// counter.
func TestO3_NaNHasNoCounter(t *testing.T) {
	s := hotkeys.New[float64](1, 0)
	for range 100 {
		s.Call(math.NaN(), 1, 0)
		s.Load(math.NaN(), time.Second, 0)
	}
	s.Check(t)
	if h := s.HotKeys(1, 0); len(h.ByTraffic)+len(h.ByLoadTime) > 0 {
		t.Errorf("HotKeys = %+v; want none", h)
	}
}

func TestNewKeepsWithinItsBounds(t *testing.T) {
	for keys, want := range map[int]int{-5: 8, 0: 8, 1: 8, 100: 800, hotkeys.Max + 1: 8 * hotkeys.Max} {
		if got := hotkeys.New[int](keys, 0).Counters(); got != want {
			t.Errorf("New(%d) has %d counters; want %d", keys, got, want)
		}
	}
}

// Once all counters are in use, adding to a Sketch allocates nothing.
func TestC10_SamplesAllocateNothing(t *testing.T) {
	s := hotkeys.New[int](10, 0)
	i := 0
	add := func() {
		i++
		call(s, i%50, int64(i), uint64(i))
		s.Load(i%50, time.Second, int64(i))
	}
	if n := testing.AllocsPerRun(1000, add); n > 0 {
		t.Errorf("%v allocations for a call and a load; want none", n)
	}
}

// Many goroutines call, load and read at once.
func TestO3_UnderTraffic(t *testing.T) {
	s := hotkeys.New[int](10, 0)
	var clock, made atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 20_000 {
				now := clock.Add(1000)
				call(s, i%100, now, uint64(i))
				if i%10 == 0 {
					s.Load(i%100, time.Millisecond, now)
					made.Add(1)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			h := s.HotKeys(10, clock.Load())
			for _, k := range append(h.ByTraffic, h.ByLoadTime...) {
				if !(k.Rate >= k.Excess && k.Excess >= 0) {
					t.Errorf("%+v; want Excess at most Rate", k)
				}
			}
		}
	})
	all.Wait()
	s.Check(t)
	if got, want := s.HotKeys(10, 0).LoadTime, float64(made.Load())/1000; math.Abs(got-want) > 0.01*want {
		t.Errorf("%v s of loads; want %v", got, want)
	}
}
