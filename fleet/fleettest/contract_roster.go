package fleettest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
)

// rosters returns the Rosters of n instances, nil if the engine has none. Subtests
// can share an engine, so they create IDs with id and look only at those.
func (s *suite) rosters(n int) []fleet.Roster {
	var all []fleet.Roster
	for range n {
		r := s.f.Instance().Abilities().Roster
		if r == nil {
			s.Log("not run: the engine keeps no roster of instances")
			return nil
		}
		all = append(all, r)
	}
	return all
}

func (s *suite) id(name string) string { return s.namespace + " " + name }

func (s *suite) announce(r fleet.Roster, i fleet.Instance, ttl time.Duration) {
	s.Helper()
	if err := r.Announce(context.Background(), i, ttl); err != nil {
		s.Fatalf("Announce(%+v, %v) = %v; want nil", i, ttl, err)
	}
}

// known returns the IDs of the subtest's instances that r knows, without the prefix
// that id adds.
func (s *suite) known(r fleet.Roster) (ids []string) {
	s.Helper()
	for _, i := range s.instances(r) {
		ids = append(ids, strings.TrimPrefix(i.ID, s.id("")))
	}
	return ids
}

func (s *suite) instances(r fleet.Roster) (all []fleet.Instance) {
	s.Helper()
	found, err := r.Instances(context.Background())
	if err != nil {
		s.Fatalf("Instances = %v; want nil", err)
	}
	for _, i := range found {
		if strings.HasPrefix(i.ID, s.id("")) {
			all = append(all, i)
		}
	}
	return all
}

func (s *suite) wantKnown(r fleet.Roster, want ...string) {
	s.Helper()
	if got := s.known(r); fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("the known instances are %q; want %q", got, want)
	}
}

// announced: all instances see the last announcement, unchanged, sorted by name, and
// with the time when it was made, until it is withdrawn.
func (s *suite) announced() {
	all := s.rosters(2)
	if all == nil {
		return
	}
	started := time.Unix(1_700_000_000, 123_456_789).UTC()
	counts := map[string]uint64{"requests": 1<<64 - 1, "a \"b\"\n": 7}
	i := fleet.Instance{
		ID: s.id("1"), Name: "b {node}\x00ü", Address: "https://10.0.0.1:9090/", Version: "v1.2.3",
		Started: started, Seen: started, Counts: counts,
	}
	s.announce(all[0], fleet.Instance{ID: i.ID, Name: "old"}, time.Minute)
	s.announce(all[0], i, time.Minute)
	delete(counts, "requests") // the caller's map is not shared
	s.announce(all[1], fleet.Instance{ID: s.id("3"), Name: "c"}, time.Minute)
	s.announce(all[1], fleet.Instance{ID: s.id("2"), Name: "a"}, time.Minute)
	for n, r := range all {
		s.wantKnown(r, "2", "1", "3") // by name
		got := s.instances(r)[1]
		if got.Name != i.Name || got.Address != i.Address || got.Version != i.Version || !got.Started.Equal(started) ||
			fmt.Sprint(got.Counts) != fmt.Sprint(map[string]uint64{"requests": 1<<64 - 1, "a \"b\"\n": 7}) {
			s.Errorf("instance %d knows %+v; want what was announced, %+v", n, got, i)
		}
		got.Counts["requests"] = 0 // the reader's map is not shared
	}
	first := s.instances(all[0])[1].Seen
	if age := time.Since(first); age < -time.Hour || age > time.Hour {
		s.Errorf("it was seen at %v; want the engine's time", first)
	}
	time.Sleep(2 * time.Millisecond)
	s.announce(all[0], i, time.Minute)
	if again := s.instances(all[1])[1].Seen; !again.After(first) {
		s.Errorf("it was seen at %v, and then at %v; want later", first, again)
	}
	for range 2 { // the second time does nothing
		if err := all[1].Withdraw(context.Background(), i.ID); err != nil {
			s.Errorf("Withdraw = %v; want nil", err)
		}
	}
	s.wantKnown(all[0], "2", "3")
}

// announcementsEnd: an instance that stops announcing itself is forgotten, and no
// other.
func (s *suite) announcementsEnd() {
	all := s.rosters(1)
	if all == nil {
		return
	}
	r, ttl := all[0], s.f.Lease
	var both sync.WaitGroup
	for n := range 20 { // more than an engine drops at a time
		both.Go(func() { s.announce(r, fleet.Instance{ID: s.id(fmt.Sprint("x", n))}, ttl) })
	}
	both.Wait()
	s.announce(r, fleet.Instance{ID: s.id("stays"), Name: "z"}, ttl)
	if n := len(s.known(r)); n != 21 {
		s.Errorf("%d instances are known; want 21", n)
	}
	s.announce(r, fleet.Instance{ID: s.id("stays"), Name: "z"}, time.Minute)
	time.Sleep(ttl + s.f.Slack)
	s.wantKnown(r, "stays")
	s.announce(r, fleet.Instance{ID: s.id("x0"), Name: "back"}, time.Minute)
	s.wantKnown(r, "x0", "stays")
}

func (s *suite) announcementBounds() {
	all := s.rosters(1)
	if all == nil {
		return
	}
	for _, one := range []struct {
		what string
		i    fleet.Instance
		ttl  time.Duration
	}{
		{"without an ID", fleet.Instance{Name: "x"}, time.Minute},
		{"for no time", fleet.Instance{ID: s.id("x")}, 0},
		{"for less", fleet.Instance{ID: s.id("x")}, -time.Second},
		{"for too long", fleet.Instance{ID: s.id("x")}, fleet.MaxLease + 1},
		{"too large", fleet.Instance{ID: s.id("x"), Name: strings.Repeat("x", fleet.MaxInstance)}, time.Minute},
	} {
		for range 2 * fleet.DefaultFailures { // and no breaker opens
			if err := all[0].Announce(context.Background(), one.i, one.ttl); err == nil || errors.Is(err, fleet.ErrUnavailable) {
				s.Errorf("Announce %s = %v; want an error that is not ErrUnavailable", one.what, err)
			}
		}
	}
	s.wantKnown(all[0])
	s.announce(all[0], fleet.Instance{ID: s.id("x"), Name: strings.Repeat("x", fleet.MaxInstance/2)}, fleet.MaxLease)
	s.wantKnown(all[0], "x")
}
