package jobs

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// J27: an announcement wakes the job that has waited longest, and none is lost between
// a look and the parking.
func TestJ27_AnnouncementsWakeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p lots
		if d := p.park(&busy{id: "gate"}, "a", "reply a"); d < minPark/2 || d > minPark {
			t.Errorf("delay = %v; want from %v to %v", d, minPark/2, minPark)
		}
		known, _ := p.known("gate", 0)
		if known == nil {
			t.Fatal("the gate is not known to be taken")
		}
		p.park(known, "b", "reply b")
		for _, want := range []string{"reply a", "reply b", ""} {
			if got, _ := p.free("gate"); got != want {
				t.Errorf("free = %q; want %q", got, want)
			}
			if known, _ := p.known("gate", 0); known != nil {
				t.Error("after an announcement the gate is known to be taken; want a look")
			}
		}
		_, gen := p.known("gate", 0) // a look begins
		p.free("gate")               // the gate becomes free
		if d := p.park(&busy{id: "gate", gen: gen}, "c", "reply c"); d != 0 {
			t.Errorf("delay after an announcement during the look = %v; want 0", d)
		}
		if known, _ := p.known("other", 0); known != nil {
			t.Error("another gate is known to be taken")
		}
		time.Sleep(knowFor)
		if known, _ := p.known("gate", 0); known != nil {
			t.Errorf("after %v the gate is still known to be taken", knowFor)
		}
	})
}

// J27: jobs that wait for a rate are due one after another, and none waits much longer
// than maxPark.
func TestJ27_ARatesJobsAreDueOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p lots
		b := &busy{id: "gate", wait: time.Second / 2, step: time.Second}
		for n := range 59 {
			if d, want := p.park(b, fmt.Sprint(n), ""), time.Second/2+time.Duration(n)*time.Second; d != want {
				t.Fatalf("delay of job %d = %v; want %v", n, d, want)
			}
		}
		for n := range 100 {
			if d := p.park(b, fmt.Sprint("late", n), ""); d > maxPark || d < maxPark/2 {
				t.Fatalf("delay of a job far behind = %v; want from %v to %v", d, maxPark/2, maxPark)
			}
		}
		time.Sleep(time.Hour) // all of them were handled elsewhere
		if d := p.park(b, "new", ""); d != b.wait {
			t.Errorf("delay of a new job = %v; want %v: no other waits", d, b.wait)
		}
	})
}

// J27: what a Worker remembers is bounded.
func TestJ27_TheParkingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p lots
		for n := range maxParked + 100 {
			if d := p.park(&busy{id: "gate"}, fmt.Sprint(n), ""); d > maxPark {
				t.Fatalf("delay = %v; want at most %v", d, maxPark)
			}
		}
		for n := range maxLots + 100 {
			p.park(&busy{id: fmt.Sprint(n)}, "job", "")
		}
		if p.parked != maxParked || len(p.all) != maxLots {
			t.Errorf("%d items and %d lots are remembered; want %d and %d", p.parked, len(p.all), maxParked, maxLots)
		}
		time.Sleep(2 * maxPark)
		if p.park(&busy{id: "new"}, "job", ""); p.parked != 1 || len(p.all) != 1 {
			t.Errorf("%d items and %d lots after all delays have ended; want those of the new job", p.parked, len(p.all))
		}
	})
}

// J27: a gate counts starts by the server's clock (GCRA).
func TestJ27_LimitsHaveDefaults(t *testing.T) {
	for _, row := range []struct {
		l        KeyLimit
		interval time.Duration
		burst    int
	}{
		{KeyLimit{}, 0, 1},
		{KeyLimit{PerSecond: 0.5}, 2 * time.Second, 1},
		{KeyLimit{PerSecond: 100}, 10 * time.Millisecond, 10},
		{KeyLimit{PerSecond: 100, Burst: 3}, 10 * time.Millisecond, 3},
	} {
		if i, b := row.l.interval(), row.l.burst(); i != row.interval || b != row.burst {
			t.Errorf("%+v: interval %v, burst %d; want %v, %d", row.l, i, b, row.interval, row.burst)
		}
	}
	o := QueueOptions{KeyLimit: KeyLimit{Concurrency: 2}, KeyLimits: map[string]KeyLimit{"big": {Concurrency: 9}, "free": {}}}
	for key, want := range map[string]int{"small": 2, "big": 9, "free": 0} {
		if got := o.keyLimit(key).Concurrency; got != want {
			t.Errorf("Concurrency of %q = %d; want %d", key, got, want)
		}
	}
}
