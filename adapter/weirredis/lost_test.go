package weirredis_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// A command whose response is lost is not sent again: nothing is executed twice, and
// permits in lost responses are lost.
func TestAnswersLost(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	p := newProxy(t, s.Addr)
	tier := open(t, s, func(o *weirredis.Options) {
		o.Addresses = []string{p.addr()}
		o.PingInterval = time.Minute // of the tracking connection: no command is sent on it
		o.Breaker.Failures = 1 << 20
	})
	rate := fleet.Rate{Permits: 1, Per: time.Hour, Burst: 100}
	take := func() (fleet.Taken, error) { return tier.Take(t.Context(), key("k"), rate, 3) }
	if _, err := take(); err != nil {
		t.Fatal(err)
	}
	heard, lost := 3, 0
	s.Do("CONFIG", "RESETSTAT")
	for i := range 30 {
		p.lose.Store(i%2 == 0)
		got, err := take()
		switch {
		case err == nil:
			heard += got.Permits
		case unavailable(err):
			lost++
		default:
			t.Fatalf("Take = %v", err)
		}
	}
	p.lose.Store(false)
	if lost < 15 {
		t.Fatalf("%d responses were lost; want at least 15", lost)
	}
	if sent := s.Calls()["evalsha"]; sent > 30 {
		t.Errorf("30 Takes sent %d commands; want each at most once", sent)
	}
	rest, err := tier.Take(t.Context(), key("k"), rate, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if sum := heard + rest.Permits; sum > rate.Burst || sum < rate.Burst-3*lost {
		t.Errorf("%d permits in all, with %d responses lost; want at most %d", sum, lost, rate.Burst)
	}

	p.lose.Store(true)
	if _, err := tier.Acquire(t.Context(), key("k"), fleet.Ask{Lease: time.Minute}); !unavailable(err) {
		t.Errorf("Acquire whose response is lost = %v; want unavailable", err)
	}
	p.lose.Store(false)
	eventually(t, "a response", func() bool {
		a, err := tier.Acquire(t.Context(), key("k"), fleet.Ask{Lease: time.Minute})
		return err == nil && a.Grant == fleet.GrantHeld // without a holder, until it expires
	})
}
