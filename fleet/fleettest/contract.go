package fleettest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
)

// A sentence pairs a sentence of the interface's documentation with its test.
type sentence struct {
	name string
	test func(*suite)
}

var contract = []sentence{
	{"OneIsGranted", (*suite).oneIsGranted},
	{"FencesGrow", (*suite).fencesGrow},
	{"FencesGrowOverARestart", (*suite).fencesGrowOverARestart},
	{"HeldTellsWhatRemains", (*suite).heldTells},
	{"ExtendProlongs", (*suite).extendProlongs},
	{"ExtendIsRefused", (*suite).extendIsRefused},
	{"SettleStores", (*suite).settleStores},
	{"SettleIsRefused", (*suite).settleIsRefused},
	{"SettleAfterTheLeaseRanOut", (*suite).settleAfterTheLease},
	{"GivingUpLetsTheNextLoad", (*suite).givingUp},
	{"JoinedSharesWhatWasWaitedFor", (*suite).joined},
	{"NewerThan", (*suite).newerThan},
	{"EntriesGetOldAndGo", (*suite).entriesGetOld},
	{"FreshnessEndsAtItsInstant", (*suite).freshUntil},
	{"CoolingGrowsToItsCap", (*suite).coolingGrows},
	{"CoolingEnds", (*suite).coolingEnds},
	{"CooledLoadsAllTheSame", (*suite).cooled},
	{"RemoveWithAFailure", (*suite).removeWithAFailure},
	{"WriteSets", (*suite).writeSets},
	{"WriteExpires", (*suite).writeExpires},
	{"WriteRemoves", (*suite).writeRemoves},
	{"Tags", (*suite).tagsCount},
	{"TagsExpire", (*suite).tagsExpire},
	{"TagsOverARestart", (*suite).tagsOverARestart},
	{"WatchTells", (*suite).watchTells},
	{"WatchTellsInOrder", (*suite).watchInOrder},
	{"ValuesArePushed", (*suite).valuesArePushed},
	{"WatchEndsWithStop", (*suite).watchEnds},
	{"AnyBytesAreNames", (*suite).anyBytes},
	{"NamespacesAreApart", (*suite).namespacesAreApart},
	{"LargeData", (*suite).largeData},
	{"NothingIsKeptOfTheCaller", (*suite).nothingIsKept},
	{"BoundsAreErrors", (*suite).bounds},
	{"AnEndedContextIsNoFailure", (*suite).endedContext},
	{"TakeNeverAboveTheRate", (*suite).takeNeverAbove},
	{"SpendAndCorrect", (*suite).spendAndCorrect},
	{"UnitsComeBackOnce", (*suite).unitsComeBackOnce},
	{"UnitsInAnyOrder", (*suite).unitsInAnyOrder},
	{"CorrectionsAreBounded", (*suite).correctionsAreBounded},
	{"TakeTellsWhenToRetry", (*suite).takeRetry},
	{"TakeKeepsPermitsWhenTheRateChanges", (*suite).takeOtherRate},
	{"AnnouncedInstancesAreKnown", (*suite).announced},
	{"AnnouncementsEnd", (*suite).announcementsEnd},
	{"AnnouncementsHaveBounds", (*suite).announcementBounds},
}

func (s *suite) oneIsGranted() {
	instances := []fleet.Tier{s.f.Instance(), s.f.Instance(), s.f.Instance(), s.f.Instance()}
	grants := make(chan fleet.Answer, 64)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() { grants <- s.patient(instances[i%4], s.key("k")) })
	}
	wg.Wait()
	close(grants)
	granted, fences := 0, make(map[uint64]bool)
	for a := range grants {
		if a.Grant == fleet.GrantLease {
			granted++
		} else if a.Grant != fleet.GrantHeld {
			s.Errorf("Acquire = %v; want granted or held", a.Grant)
		}
		fences[a.Fence] = true
	}
	if granted != 1 || len(fences) != 1 {
		s.Errorf("%d of 64 were granted the lease, with %d fences; want 1, 1", granted, len(fences))
	}
}

// patient calls Acquire until the engine responds: on a small machine 64 callers at
// once can take longer than the deadline of one.
func (s *suite) patient(t fleet.Tier, k fleet.Key) fleet.Answer {
	for end := time.Now().Add(s.f.Recovery); ; time.Sleep(s.f.Deadline) {
		a, err := t.Acquire(context.Background(), k, fleet.Ask{Lease: time.Minute})
		if err == nil || time.Now().After(end) {
			if err != nil {
				s.Errorf("Acquire = %v; want nil", err)
			}
			return a
		}
	}
}

func (s *suite) fencesGrow() {
	a, b := s.f.Instance(), s.f.Instance()
	k, last := s.key("k"), uint64(0)
	grows := func(what string, fence uint64) {
		s.Helper()
		if fence <= last {
			s.Errorf("%s has fence %d; want more than %d", what, fence, last)
		}
		last = fence
	}
	for range 5 {
		grows("a lease", s.grant(a, k, fleet.Ask{NewerThan: fleet.AnyFence}))
		s.settle(a, k, last, stored("v"), true)
		grows("a Write that sets", s.write(b, k, fleet.Write{Entry: entry("w")}))
		grows("a Write that expires", s.write(a, k, fleet.Write{Expire: true}))
		grows("a lease", s.grant(b, k, fleet.Ask{}))
		s.settle(b, k, last, fleet.Outcome{}, true)
		grows("a Write that removes", s.write(a, k, fleet.Write{}))
	}
}

func (s *suite) fencesGrowOverARestart() {
	if s.f.Stop == nil || s.f.Start == nil {
		s.Log("not run: the engine cannot be restarted")
		return
	}
	t, k := s.f.Instance(), s.key("k")
	before := s.grant(t, k, fleet.Ask{})
	s.f.Stop()
	s.f.Start()
	s.recover(t)
	if a := s.expect(t, k, fleet.Ask{}, fleet.GrantLease); a.Fence <= before {
		s.Errorf("after a restart a lease has fence %d; want more than %d", a.Fence, before)
	}
}

// recover waits until the engine responds to t again.
func (s *suite) recover(t fleet.Tier) {
	s.Helper()
	s.eventually(s.f.Recovery, "the engine responds again", func() bool {
		_, err := t.Tags(context.Background(), s.namespace, []string{""})
		return err == nil
	})
}

func (s *suite) heldTells() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	fence := s.grant(a, k, fleet.Ask{Lease: 10 * time.Second})
	ans := s.expect(b, k, fleet.Ask{}, fleet.GrantHeld)
	if ans.Fence != fence || !s.near(ans.Remaining, 10*time.Second) || ans.Entry != nil {
		s.Errorf("held: fence %d, %v left, entry %v; want %d, 10s, none", ans.Fence, ans.Remaining, ans.Entry, fence)
	}
}

func (s *suite) extendProlongs() {
	t, k := s.f.Instance(), s.key("k")
	fence := s.grant(t, k, fleet.Ask{Lease: 10 * time.Second})
	s.extend(t, k, fence, 30*time.Second, true)
	if ans := s.expect(t, k, fleet.Ask{}, fleet.GrantHeld); !s.near(ans.Remaining, 30*time.Second) {
		s.Errorf("%v left after Extend; want 30s", ans.Remaining)
	}
	s.extend(t, k, fence, 10*time.Second, true) // d counts from now: a shorter one shortens the lease
	if ans := s.expect(t, k, fleet.Ask{}, fleet.GrantHeld); !s.near(ans.Remaining, 10*time.Second) {
		s.Errorf("%v left after Extend; want 10s", ans.Remaining)
	}
}

func (s *suite) extendIsRefused() {
	t := s.f.Instance()
	ranOut := s.key("ran out")
	fence := s.grant(t, ranOut, fleet.Ask{Lease: s.f.Lease})
	time.Sleep(s.f.Lease + s.f.Slack)
	s.extend(t, ranOut, fence, time.Minute, false)
	s.expect(t, ranOut, fleet.Ask{}, fleet.GrantLease) // not revived
	s.extend(t, ranOut, fence, time.Minute, false)

	written := s.key("written")
	fence = s.grant(t, written, fleet.Ask{})
	next := s.write(t, written, fleet.Write{Expire: true})
	s.extend(t, written, fence, time.Minute, false)
	s.extend(t, written, next, time.Minute, false)

	settled := s.key("settled")
	fence = s.grant(t, settled, fleet.Ask{})
	s.settle(t, settled, fence, fleet.Outcome{}, true)
	s.extend(t, settled, fence, time.Minute, false)
	s.extend(t, s.key("never asked for"), 1, time.Minute, false)
}

func (s *suite) settleStores() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	fence := s.grant(a, k, fleet.Ask{})
	s.settle(a, k, fence, stored("v"), true)
	ans := s.expect(b, k, fleet.Ask{}, fleet.GrantFresh)
	s.wantEntry(ans.Entry, "v", fence)
	if ans.Entry != nil && !s.near(ans.Entry.Fresh, time.Minute) {
		s.Errorf("fresh for %v; want a minute", ans.Entry.Fresh)
	}
	s.expect(b, k, fleet.Ask{NewerThan: fleet.AnyFence}, fleet.GrantLease) // Settle has ended the lease

	empty := s.key("empty")
	fence = s.grant(a, empty, fleet.Ask{})
	s.settle(a, empty, fence, stored(""), true)
	if ans := s.expect(b, empty, fleet.Ask{}, fleet.GrantFresh); ans.Entry == nil || len(ans.Entry.Data) != 0 {
		s.Errorf("the entry is %+v; want an empty one", ans.Entry)
	}
}

func (s *suite) settleIsRefused() {
	t, k := s.f.Instance(), s.key("k")
	first := s.grant(t, k, fleet.Ask{})
	s.settle(t, k, first, stored("first"), true)
	second := s.grant(t, k, fleet.Ask{NewerThan: first})
	s.settle(t, k, first, stored("late"), false)
	s.settle(t, k, first, failed("late", time.Minute, time.Minute), false)
	s.settle(t, k, first, fleet.Outcome{Remove: true}, false)
	ans := s.expect(t, k, fleet.Ask{NewerThan: first}, fleet.GrantHeld) // the refused Settle changed nothing
	if ans.Fence != second {
		s.Errorf("held by %d; want %d", ans.Fence, second)
	}
	s.wantEntry(ans.Entry, "first", first)
	for name, w := range map[string]fleet.Write{"set": {Entry: entry("w")}, "expire": {Expire: true}, "remove": {}} {
		k := s.key(name)
		fence := s.grant(t, k, fleet.Ask{})
		s.write(t, k, w)
		s.settle(t, k, fence, stored("late"), false)
		if ans := s.acquire(t, k, fleet.Ask{}); ans.Entry != nil && string(ans.Entry.Data) == "late" {
			s.Errorf("a load from before a Write (%s) was stored; want refused", name)
		}
	}
	s.settle(t, s.key("never asked for"), 1, stored("v"), false)
}

func (s *suite) settleAfterTheLease() {
	t, k := s.f.Instance(), s.key("k")
	fence := s.grant(t, k, fleet.Ask{Lease: s.f.Lease})
	time.Sleep(s.f.Lease + s.f.Slack)
	s.settle(t, k, fence, stored("v"), true)
	s.wantEntry(s.expect(t, k, fleet.Ask{}, fleet.GrantFresh).Entry, "v", fence)

	gone := s.key("another came")
	fence = s.grant(t, gone, fleet.Ask{Lease: s.f.Lease})
	time.Sleep(s.f.Lease + s.f.Slack)
	s.grant(t, gone, fleet.Ask{Lease: s.f.Lease})
	time.Sleep(s.f.Lease + s.f.Slack)
	s.settle(t, gone, fence, stored("late"), false)
	s.wantEntry(s.expect(t, gone, fleet.Ask{}, fleet.GrantLease).Entry, "", 0)
}

func (s *suite) givingUp() {
	t, k := s.f.Instance(), s.key("k")
	fence := s.grant(t, k, fleet.Ask{})
	s.settle(t, k, fence, stored("v"), true)
	again := s.grant(t, k, fleet.Ask{NewerThan: fence})
	s.settle(t, k, again, fleet.Outcome{}, true)
	ans := s.expect(t, k, fleet.Ask{NewerThan: fence}, fleet.GrantLease) // no cooling
	s.wantEntry(ans.Entry, "v", fence)
}

func (s *suite) joined() {
	t, k := s.f.Instance(), s.key("k")
	first := s.grant(t, k, fleet.Ask{})
	s.settle(t, k, first, fleet.Outcome{Entry: &fleet.Entry{Data: []byte("old"), Fresh: -time.Second, Keep: time.Hour}}, true)
	s.expect(t, k, fleet.Ask{Joined: first}, fleet.GrantFresh)
	s.expect(t, k, fleet.Ask{Joined: first, NewerThan: fleet.AnyFence}, fleet.GrantFresh)
	ans := s.expect(t, k, fleet.Ask{Joined: first + 1}, fleet.GrantLease)
	s.wantEntry(ans.Entry, "old", first)
	if ans.Entry != nil && (ans.Entry.Fresh > -time.Second || ans.Entry.Fresh < -time.Second-s.f.Deadline-s.f.Slack) {
		s.Errorf("fresh for %v; want -1s", ans.Entry.Fresh)
	}
	s.expect(t, k, fleet.Ask{Joined: ans.Fence}, fleet.GrantHeld)
	s.write(t, k, fleet.Write{Expire: true})
	fence := s.grant(t, k, fleet.Ask{Joined: first}) // no instance may share it any more
	s.settle(t, k, fence, fleet.Outcome{Entry: &fleet.Entry{Data: []byte("new"), Fresh: -time.Second, Keep: time.Hour}}, true)
	s.expect(t, k, fleet.Ask{Joined: fence}, fleet.GrantFresh)
	s.write(t, k, fleet.Write{})
	s.expect(t, k, fleet.Ask{Joined: first}, fleet.GrantLease) // there is nothing to share
}

func (s *suite) newerThan() {
	t, k := s.f.Instance(), s.key("k")
	first := s.grant(t, k, fleet.Ask{})
	s.settle(t, k, first, stored("v"), true)
	s.expect(t, k, fleet.Ask{NewerThan: first - 1}, fleet.GrantFresh)
	s.wantEntry(s.expect(t, k, fleet.Ask{NewerThan: first}, fleet.GrantLease).Entry, "v", first)
	s.wantEntry(s.expect(t, k, fleet.Ask{}, fleet.GrantFresh).Entry, "v", first) // others may still use it
	s.wantEntry(s.expect(t, k, fleet.Ask{NewerThan: fleet.AnyFence}, fleet.GrantHeld).Entry, "v", first)
}

// freshUntil settles entries whose freshness has an end on the engine's clock.
func (s *suite) freshUntil() {
	for name, c := range map[string]struct{ fresh, until, want time.Duration }{
		"sooner":       {time.Hour, time.Minute, time.Minute},
		"later":        {time.Minute, time.Hour, time.Minute},
		"already over": {time.Minute, -time.Minute, -time.Minute},
	} {
		t, k := s.f.Instance(), s.key(name)
		granted := s.expect(t, k, fleet.Ask{}, fleet.GrantLease)
		until := granted.Now + uint64(c.until.Microseconds()) //nolint:gosec // wraps to less
		s.settle(t, k, granted.Fence, fleet.Outcome{Entry: &fleet.Entry{Data: []byte("v"), Fresh: c.fresh, Keep: time.Hour, Until: until}}, true)
		ans := s.acquire(t, k, fleet.Ask{})
		s.wantEntry(ans.Entry, "v", granted.Fence)
		if ans.Entry != nil && !s.near(ans.Entry.Fresh, c.want) {
			s.Errorf("%s: fresh for %v; want %v", name, ans.Entry.Fresh, c.want)
		}
		if want := c.want > 0; (ans.Grant == fleet.GrantFresh) != want {
			s.Errorf("%s: %v; want a fresh answer: %v", name, ans.Grant, want)
		}
	}
}

func (s *suite) entriesGetOld() {
	t, k := s.f.Instance(), s.key("k")
	fence := s.grant(t, k, fleet.Ask{})
	start := time.Now()
	s.settle(t, k, fence, fleet.Outcome{Entry: &fleet.Entry{Data: []byte("v"), Fresh: s.f.Lease, Keep: 2 * s.f.Lease}}, true)
	s.expect(t, k, fleet.Ask{}, fleet.GrantFresh)
	time.Sleep(s.f.Lease - time.Since(start) + s.f.Slack)
	stale := s.expect(t, k, fleet.Ask{Lease: time.Millisecond}, fleet.GrantLease)
	s.wantEntry(stale.Entry, "v", fence)
	if stale.Entry != nil && stale.Entry.Fresh >= 0 {
		s.Errorf("a stale entry is fresh for %v; want less than 0", stale.Entry.Fresh)
	}
	time.Sleep(2*s.f.Lease - time.Since(start) + s.f.Slack)
	s.wantEntry(s.expect(t, k, fleet.Ask{}, fleet.GrantLease).Entry, "", 0)
}

func (s *suite) endedContext() {
	t := s.f.Instance()
	s.grant(t, s.key("warm"), fleet.Ask{})
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	for range 2 * fleet.DefaultFailures {
		if _, err := t.Acquire(ctx, s.key("k"), fleet.Ask{Lease: time.Second}); err == nil || errors.Is(err, fleet.ErrUnavailable) {
			s.Errorf("Acquire with an ended context = %v; want its cause", err)
		}
	}
	s.expect(t, s.key("k"), fleet.Ask{}, fleet.GrantLease)
}

func (s *suite) bounds() {
	t, ctx := s.f.Instance(), context.Background()
	long := strings.Repeat("x", fleet.MaxName+1)
	check := func(what string, err error) {
		s.Helper()
		if err == nil || errors.Is(err, fleet.ErrUnavailable) {
			s.Errorf("%s = %v; want an error that is not ErrUnavailable", what, err)
		}
	}
	for range 2 * fleet.DefaultFailures { // and the breaker stays closed
		_, err := t.Acquire(ctx, s.key(long), fleet.Ask{Lease: time.Second})
		check("Acquire of a long name", err)
		_, err = t.Acquire(ctx, fleet.Key{Namespace: long}, fleet.Ask{Lease: time.Second})
		check("Acquire in a long namespace", err)
	}
	_, err := t.Acquire(ctx, s.key("k"), fleet.Ask{})
	check("Acquire without a lease", err)
	_, err = t.Acquire(ctx, s.key("k"), fleet.Ask{Lease: fleet.MaxLease + 1})
	check("Acquire with a lease above MaxLease", err)
	_, err = t.Tags(ctx, s.namespace, make([]string, fleet.MaxTags+1))
	check("Tags of too many", err)
	_, err = t.InvalidateTags(ctx, s.namespace, make([]string, fleet.MaxTags+1), time.Hour)
	check("InvalidateTags of too many", err)
	s.expect(t, s.key("k"), fleet.Ask{Lease: fleet.MaxLease}, fleet.GrantLease)
}
