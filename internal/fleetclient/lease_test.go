package fleetclient_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
)

func TestLeaseIsExtended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		holder, other := all[0].Subscribe("k"), all[1].Subscribe("k")
		defer holder.Close()
		defer other.Close()
		l := holder.Hold(ask(t, holder, fleet.Ask{}, fleet.GrantLease, "").Fence, func() { t.Error("lost; want it kept") })
		for range 10 {
			time.Sleep(lease / 3)
			synctest.Wait()
			if a := ask(t, other, fleet.Ask{}, fleet.GrantHeld, ""); a.Remaining != lease {
				t.Errorf("%v left after an extension; want %v", a.Remaining, lease)
			}
		}
		settles(t, l, stored("v", 0), true)
		time.Sleep(10 * lease)
		if st := all[0].Stats(); st.Extended != 10 || st.Settled != 1 || st.LostLeases != 0 {
			t.Errorf("Stats = %+v; want 10 renewals, none after Settle", st)
		}
		ask(t, other, fleet.Ask{}, fleet.GrantFresh, "v")
	})
}

func TestLeaseIsLostByAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		s := all[0].Subscribe("k")
		defer s.Close()
		var lost atomic.Int32
		l := s.Hold(ask(t, s, fleet.Ask{}, fleet.GrantLease, "").Fence, func() { lost.Add(1) })
		all[1].writes(fleet.Write{})
		time.Sleep(lease/3 - 1)
		if l.Lost() || lost.Load() != 0 {
			t.Error("lost before a renewal")
		}
		time.Sleep(10 * lease)
		if !l.Lost() || lost.Load() != 1 {
			t.Errorf("Lost = %v, callback called %d times; want true, once", l.Lost(), lost.Load())
		}
		settles(t, l, stored("late", 0), false)
		if !l.Lost() {
			t.Error("Lost = false after Settle; want true still")
		}
		if st := all[0].Stats(); st.Extended != 1 || st.LostLeases != 1 || st.Refused != 1 {
			t.Errorf("Stats = %+v; want 1 renewal, lost, refused", st)
		}
		ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
	})
}

func TestLeaseOutlivesAnOutageOfTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := instances(t, 1)[0]
		s := a.Subscribe("k")
		defer s.Close()
		l := s.Hold(ask(t, s, fleet.Ask{}, fleet.GrantLease, "").Fence, func() { t.Error("lost; want another attempt") })
		a.link.Cut()
		time.Sleep(lease/3 + 1)
		a.link.Mend()
		time.Sleep(3 * lease)
		if st := a.Stats(); st.Unavailable != 1 || st.Extended != 10 {
			t.Errorf("Stats = %+v; want 10 renewals, 1 of them failed", st)
		}
		settles(t, l, stored("v", 0), true)
	})
}

func TestLeaseSettlesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		s, other := all[0].Subscribe("k"), all[1].Subscribe("k")
		defer s.Close()
		defer other.Close()
		l := s.Hold(ask(t, s, fleet.Ask{}, fleet.GrantLease, "").Fence, nil)
		settles(t, l, stored("first", 0), true)
		settles(t, l, stored("second", 0), false)
		l.GiveUp(fleet.Outcome{Remove: true})
		synctest.Wait()
		ask(t, other, fleet.Ask{}, fleet.GrantFresh, "first")
		if n := all[0].link.Commands(); n != 4 { // watch, tags, acquire, settle
			t.Errorf("%d commands; want 4", n)
		}
	})
}

func TestLeaseGivenUpIsSettledInTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := instances(t, 2)
		s, other := all[0].Subscribe("k"), all[1].Subscribe("k")
		defer s.Close()
		defer other.Close()
		l := s.Hold(ask(t, s, fleet.Ask{}, fleet.GrantLease, "").Fence, nil)
		all[0].link.Hang()
		l.GiveUp(fleet.Outcome{}) // does not wait
		ask(t, other, fleet.Ask{}, fleet.GrantHeld, "")
		all[0].link.Unhang()
		synctest.Wait()
		ask(t, other, fleet.Ask{}, fleet.GrantLease, "")
	})
}

func TestKeepIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := instances(t, 1)[0]
		s := a.Subscribe("k")
		defer s.Close()
		o := stored("v", 0)
		o.Entry.Keep, o.Entry.Fresh = 100*time.Hour, 100*time.Hour
		settles(t, s.Hold(ask(t, s, fleet.Ask{}, fleet.GrantLease, "").Fence, nil), o, true)
		time.Sleep(time.Hour - 1)
		ask(t, s, fleet.Ask{}, fleet.GrantFresh, "v")
		time.Sleep(time.Nanosecond)
		ask(t, s, fleet.Ask{}, fleet.GrantLease, "")
	})
}
