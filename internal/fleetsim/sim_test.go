package fleetsim_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
	"github.com/weir-go/weir/internal/histories"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

// simPlay plays the history of a seed, with the given actions, in a bubble.
func simPlay(t *testing.T, seed uint64, o simOptions) (w *simWorld) {
	defer func() {
		if p := recover(); p != nil {
			if w != nil && histories.Alone() {
				fmt.Fprintln(os.Stderr, strings.Join(w.trace(), "\n"))
			}
			panic(p)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = &simWorld{
			seed: seed, o: o,
			truth: make(map[string]int), births: make(map[string]*simBirth), running: make(map[string][]*simBirth),
			slots: make([]*simInst, o.instances),
		}
		w.engine = simEngine{w: w, memory: fleet.NewMemory(fleet.MemoryOptions{}), registers: make(map[string]*simRegister)}
		time.Sleep(time.Hour) // so that no instant is 0
		w.start, w.micros = time.Now(), uint64(time.Now().UnixMicro())
		w.play()
	})
	return w
}

// simReduce removes actions as long as the same rule is broken.
func simReduce(t *testing.T, seed uint64, o simOptions, rule string) *simWorld {
	breaks := func(actions []simAction) *simWorld {
		less := o
		less.actions = actions
		w := simPlay(t, seed, less)
		if slices.ContainsFunc(w.broken, func(s string) bool { return simRule(s) == rule }) {
			return w
		}
		return nil
	}
	best := breaks(o.actions)
	if best == nil {
		return nil
	}
	for n := max(len(best.o.actions)/2, 1); n > 0; {
		shorter := false
		for i := 0; i < len(best.o.actions); {
			less := slices.Delete(slices.Clone(best.o.actions), i, min(i+n, len(best.o.actions)))
			if w := breaks(less); w != nil {
				best, shorter = w, true
			} else {
				i += n
			}
		}
		if !shorter || n > 1 {
			n /= 2
		}
	}
	return best
}

// simRule returns the rule with which a complaint begins.
func simRule(complaint string) string {
	rule, _, _ := strings.Cut(complaint, ":")
	return rule
}

// simJitter replaces the Clients' random source in all tests of this package. It
// varies from wait to wait with what remains of the lease.
func init() {
	fleetclient.Jitter = func(d time.Duration) time.Duration {
		return time.Duration(uint64(d) * 0x9E3779B97F4A7C15 >> 40 % uint64(d/4+ms))
	}
}

// TestFleetSim plays random histories of a fleet, and judges them by the rules. A
// history that is played alone is printed.
func TestFleetSim(t *testing.T) {
	t.Cleanup(func() {
		t.Logf("%d requests were answered by pushed values", simPushed.Load())
		if !histories.Alone() && simPushed.Load() == 0 {
			t.Error("no pushed value was ever used")
		}
	})
	histories.InLanes(t, 200, 2000, func(t *testing.T, seed uint64) {
		w := simPlay(t, seed, simDraw(seed))
		if histories.Alone() {
			t.Logf("options %+v\n%s", w.head(), strings.Join(w.trace(), "\n"))
		}
		simReport(t, seed, w)
	})
}

// simReport reports what was broken, with the shortest history that still breaks it.
func simReport(t *testing.T, seed uint64, w *simWorld) {
	if len(w.broken) == 0 {
		return
	}
	t.Errorf("seed %d breaks %d rules, of which the first is:\n%s", seed, len(w.broken), w.broken[0])
	if short := simReduce(t, seed, w.o, simRule(w.broken[0])); short != nil {
		t.Errorf("%d of %d actions are enough:\n%s\noptions %+v\n%s",
			len(short.o.actions), len(w.o.actions), short.broken[0], short.head(), strings.Join(short.trace(), "\n"))
	}
}

// head returns the Options without the actions.
func (w *simWorld) head() simOptions {
	o := w.o
	o.actions = nil
	return o
}
