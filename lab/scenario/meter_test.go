package scenario

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Meter
		early := m.Begin() // before the measurement
		time.Sleep(50 * time.Millisecond)
		m.reset(time.Now())
		first := m.Begin()
		time.Sleep(150 * time.Millisecond)
		second := m.Begin()
		early()
		time.Sleep(50 * time.Millisecond)
		first()
		second()

		s := m.source()
		if s.Calls != 2 || s.Most != 3 {
			t.Errorf("%d calls, %d at once; want 2, and 3 with the early one", s.Calls, s.Most)
		}
		if s.LongestMS != 200 || s.MeanMS != 125 {
			t.Errorf("longest %v ms, mean %v ms; want 200, 125: the early one does not count", s.LongestMS, s.MeanMS)
		}
		if got, want := m.series(time.Now()).Values, []float64{10, 10, 0}; !slices.Equal(got, want) {
			t.Errorf("calls per second over time = %v; want %v", got, want)
		}
		if n := m.Running(); n != 0 {
			t.Errorf("%d running; want 0", n)
		}
	})
}
