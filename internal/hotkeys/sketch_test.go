package hotkeys_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/internal/hotkeys"
)

const sec = int64(time.Second)

// call makes a call as an owner would.
func call[K comparable](s *hotkeys.Sketch[K], key K, now int64, turn uint64) {
	if w := s.Sample(now, turn); w > 0 {
		s.Call(key, w, now)
	}
}

func TestO3_CountsOfFewKeysAreExact(t *testing.T) {
	s := hotkeys.New[string](3, 0)
	for i, key := range []string{"a", "b", "a", "c", "a", "b"} {
		call(s, key, 0, uint64(i))
	}
	s.Load("a", 30*time.Millisecond, 0)
	s.Load("b", 500*time.Millisecond, 0)
	s.Load("b", 500*time.Millisecond, 0)
	s.Load("c", 0, 0)
	got := s.HotKeys(10, 0)
	want := inspect.HotKeys{
		Window: time.Second, Requests: 6, LoadTime: 1.03,
		ByTraffic:  []inspect.HotKey{{Key: "a", Rate: 3}, {Key: "b", Rate: 2}, {Key: "c", Rate: 1}},
		ByLoadTime: []inspect.HotKey{{Key: "b", Rate: 1}, {Key: "a", Rate: 0.03}},
	}
	wantHotKeys(t, got, want)
	wantHotKeys(t, s.HotKeys(1, 0), inspect.HotKeys{
		Window: time.Second, Requests: 6, LoadTime: 1.03,
		ByTraffic: want.ByTraffic[:1], ByLoadTime: want.ByLoadTime[:1],
	})
	if h := s.HotKeys(-1, 0); h.ByTraffic != nil || h.ByLoadTime != nil {
		t.Errorf("HotKeys(-1) = %+v; want no keys", h)
	}
}

func TestO3_NilSketchDoesNothing(t *testing.T) {
	var s *hotkeys.Sketch[int]
	if w := s.Sample(0, 0); w != 0 {
		t.Errorf("Sample = %d; want 0", w)
	}
	s.Call(1, 1, 0)
	s.Load(1, time.Second, 0)
	wantHotKeys(t, s.HotKeys(10, 0), inspect.HotKeys{})
}

// wantHotKeys compares with a tolerance of one millionth.
func wantHotKeys(t *testing.T, got, want inspect.HotKeys) {
	t.Helper()
	same := near(got.Requests, want.Requests) && near(got.LoadTime, want.LoadTime) && got.Window.Round(time.Microsecond) == want.Window &&
		sameKeys(got.ByTraffic, want.ByTraffic) && sameKeys(got.ByLoadTime, want.ByLoadTime)
	if !same {
		t.Errorf("HotKeys = %+v; want %+v", got, want)
	}
}

func sameKeys(a, b []inspect.HotKey) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Key != b[i].Key || !near(a[i].Rate, b[i].Rate) || !near(a[i].Excess, b[i].Excess) {
			return false
		}
	}
	return true
}

func near(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 }
