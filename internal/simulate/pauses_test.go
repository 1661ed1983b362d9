package simulate_test

import (
	"math"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/simulate"
)

// Two calls share a server or take turns. The source pauses from 50 to 80 ms, and
// again at the very instant at which the first call would end.
func TestPauseStopsWorkThatContinuesAfterIt(t *testing.T) {
	pauses := simulate.Schedule{{0, 0}, {50 * ms, 1}, {80 * ms, 0}, {130 * ms, 1}, {140 * ms, 0}}
	s := story(simulate.Const(1), 0, 60*ms)
	s.Source.Paused = pauses
	took(t, one(t, s, simulate.None()), 130*ms, 180*ms)

	// When the second call arrives, the first has completed 50 ms of its work alone.
	// Both then run at half speed from 80 ms on. The first is delayed by pauses of 40
	// ms in total.
	s.Source.Model, s.Source.Penalty = simulate.Convoy, -1
	p := one(t, s, simulate.None())
	took(t, p, 180*ms, 190*ms)
}

// A gate that is asleep sees responses, arrivals and deadlines when it wakes up. The
// wait of a call that arrived in the meantime counts from its arrival.
func TestAsleepGateSeesEverythingWhenItWakesUp(t *testing.T) {
	s := story(simulate.Const(1), 0, 60*ms)
	s.Asleep = simulate.Window(0, 50*ms, 130*ms, 1)
	took(t, one(t, s, simulate.None()), 130*ms, 170*ms)
	s.Deadline = 120 * ms // at 120 ms the first has completed, and at 180 ms the second is in service
	ended(t, one(t, s, simulate.None()), 1, 1, 0)
	s.Deadline, s.LoadTimeout = time.Minute, 95*ms
	ended(t, one(t, s, simulate.None()), 1, 0, 1) // the first has its response by the time its timeout is checked
}

func TestPausesTakeTheirShareOfTheTime(t *testing.T) {
	const end = 1000 * time.Second
	for _, r := range []simulate.Rhythm{simulate.Regular, simulate.Jittered, simulate.Poisson} {
		for _, duty := range []float64{0.05, 0.25} {
			paused := 0.0
			s := simulate.Pauses(r, 100*ms, duty, end, 1)
			for i, p := range s {
				if i == 0 {
					continue
				}
				if p.At <= s[i-1].At || p.Value == s[i-1].Value {
					t.Fatalf("%s: step %d is %v after %v; want later, and another value", r, i, p, s[i-1])
				}
				if s[i-1].Value > 0 {
					paused += float64(p.At - s[i-1].At)
				}
			}
			want := duty
			if r == simulate.Poisson {
				want = 1 - math.Exp(-duty) // for overlapping pauses
			}
			if got := paused / float64(end); math.Abs(got-want) > 0.1*want {
				t.Errorf("%s pauses with a duty of %g take %.3f of the time; want %.3f", r, duty, got, want)
			}
		}
	}
}

func TestEveryNthPauseScenarioDiffers(t *testing.T) {
	names := map[string]bool{}
	for _, s := range append(simulate.AllPauses(), simulate.AllAsleep()...) {
		names[s.Name] = true
	}
	if len(names) != 2*288 {
		t.Errorf("%d names; want 576", len(names))
	}
}
