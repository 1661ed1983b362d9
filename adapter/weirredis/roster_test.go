package weirredis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// Expired instances are deleted, whether Instances is called or not.
func TestRosterIsTrimmed(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	announce := func(id string, ttl time.Duration) {
		t.Helper()
		if err := tier.Announce(t.Context(), fleet.Instance{ID: id, Name: id}, ttl); err != nil {
			t.Fatalf("Announce(%q) = %v; want nil", id, err)
		}
	}
	const key = "weir:i:{|}"
	for i := range 100 {
		announce(fmt.Sprint("short ", i), 50*time.Millisecond)
	}
	announce("long", time.Minute)
	<-time.After(60 * time.Millisecond)
	for range 200 { // without Instances, while one instance continues
		announce("long", time.Minute)
	}
	if n := s.Int("HLEN", key); n > 5 {
		t.Errorf("%d instances are stored, of which one is known; want the others deleted", n)
	}
	if all, err := tier.Instances(t.Context()); err != nil || len(all) != 1 || all[0].ID != "long" {
		t.Errorf("Instances = %+v, %v; want the one that is known", all, err)
	}
	if n := s.Int("HLEN", key); n != 1 {
		t.Errorf("%d instances are stored after Instances; want 1", n)
	}
	announce("brief", 50*time.Millisecond)
	if left := s.Int("PTTL", key); left < 50_000 || left > 60_000 {
		t.Errorf("the roster lives for %d ms; want the time of its longest announcement", left)
	}
	for _, id := range []string{"long", "brief"} {
		if err := tier.Withdraw(t.Context(), id); err != nil {
			t.Errorf("Withdraw(%q) = %v; want nil", id, err)
		}
	}
	if n := s.Int("EXISTS", key); n != 0 {
		t.Errorf("the roster still exists without an instance")
	}
}

// An unreadable instance of another version does not hide the others.
func TestRosterWithWhatIsNotOurs(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	if err := tier.Announce(t.Context(), fleet.Instance{ID: "a"}, time.Minute); err != nil {
		t.Fatal(err)
	}
	s.Do("HSET", "weir:i:{|}", "b", "99999999999999999 1 [of a later version]")
	if all, err := tier.Instances(t.Context()); err != nil || len(all) != 1 || all[0].ID != "a" {
		t.Errorf("Instances = %+v, %v; want only a", all, err)
	}
}
