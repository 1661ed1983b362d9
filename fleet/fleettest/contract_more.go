package fleettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
)

func (s *suite) coolingGrows() {
	t, k := s.f.Instance(), s.key("k")
	cools := func(want time.Duration) {
		s.Helper()
		fence := s.grant(t, k, fleet.Ask{Cooled: true, NewerThan: fleet.AnyFence})
		s.settle(t, k, fence, failed("no", 10*time.Second, 50*time.Second), true)
		ans := s.expect(t, k, fleet.Ask{NewerThan: fleet.AnyFence}, fleet.GrantCooling)
		if !s.near(ans.Remaining, want) || ans.Failure != (fleet.Failure{Kind: "kind", Text: "no"}) {
			s.Errorf("cooling for %v, %+v; want %v, kind and text", ans.Remaining, ans.Failure, want)
		}
	}
	resets := []func(){
		func() {},
		func() {
			fence := s.grant(t, k, fleet.Ask{Cooled: true, NewerThan: fleet.AnyFence})
			s.settle(t, k, fence, stored("v"), true)
		},
		func() { s.write(t, k, fleet.Write{Entry: entry("w")}) },
		func() { s.write(t, k, fleet.Write{Expire: true}) },
		func() { s.write(t, k, fleet.Write{}) },
	}
	for _, reset := range resets {
		reset()
		for _, want := range []time.Duration{10, 20, 40, 50, 50} {
			cools(want * time.Second)
		}
	}
}

func (s *suite) coolingEnds() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	cool := s.f.Lease
	for _, cools := range []time.Duration{cool, 2 * cool} { // the second one in a row is longer
		fence := s.grant(a, k, fleet.Ask{})
		start := time.Now()
		s.settle(a, k, fence, failed("no", cool, 10*cool), true)
		s.expect(b, k, fleet.Ask{}, fleet.GrantCooling)
		time.Sleep(cools - time.Since(start) + s.f.Slack)
		ans := s.expect(b, k, fleet.Ask{}, fleet.GrantLease)
		s.settle(b, k, ans.Fence, fleet.Outcome{}, true)
	}
	long := s.key("long text")
	fence := s.grant(a, long, fleet.Ask{})
	s.settle(a, long, fence, failed(strings.Repeat("x", fleet.MaxFailureText+1), time.Minute, 0), true)
	ans := s.expect(b, long, fleet.Ask{}, fleet.GrantCooling)
	if n := len(ans.Failure.Text); n != fleet.MaxFailureText || !s.near(ans.Remaining, time.Minute) {
		s.Errorf("a text of %d bytes for %v; want %d, 1m", n, ans.Remaining, fleet.MaxFailureText)
	}
}

func (s *suite) cooled() {
	t, k := s.f.Instance(), s.key("k")
	fence := s.grant(t, k, fleet.Ask{})
	s.settle(t, k, fence, failed("no", time.Minute, time.Minute), true)
	fence = s.grant(t, k, fleet.Ask{Cooled: true})
	s.expect(t, k, fleet.Ask{}, fleet.GrantHeld)
	s.expect(t, k, fleet.Ask{Cooled: true}, fleet.GrantHeld)
	s.settle(t, k, fence, fleet.Outcome{}, true)
	s.expect(t, k, fleet.Ask{}, fleet.GrantCooling) // abandoning the load changes nothing
	fence = s.grant(t, k, fleet.Ask{Cooled: true})
	s.settle(t, k, fence, stored("v"), true)
	s.expect(t, k, fleet.Ask{}, fleet.GrantFresh)
	s.expect(t, k, fleet.Ask{NewerThan: fence}, fleet.GrantLease) // success ends the cooling
}

func (s *suite) removeWithAFailure() {
	t, k := s.f.Instance(), s.key("k")
	e := s.listen(s.f.Instance(), s.namespace)
	fence := s.grant(t, k, fleet.Ask{})
	s.settle(t, k, fence, stored("v"), true)
	next := s.grant(t, k, fleet.Ask{NewerThan: fence})
	s.settle(t, k, next, failed("no", time.Minute, time.Minute), true)
	s.wantEntry(s.expect(t, k, fleet.Ask{NewerThan: fence}, fleet.GrantCooling).Entry, "v", fence)
	next = s.grant(t, k, fleet.Ask{NewerThan: fence, Cooled: true})
	o := failed("no", time.Minute, time.Minute)
	o.Remove = true
	s.settle(t, k, next, o, true)
	s.wantEntry(s.expect(t, k, fleet.Ask{}, fleet.GrantCooling).Entry, "", 0)
	s.hears(e, changed("k", fence, false), changed("k", next, true))
}

func (s *suite) writeSets() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	fence := s.write(a, k, fleet.Write{Entry: entry("v")})
	ans := s.expect(b, k, fleet.Ask{}, fleet.GrantFresh)
	s.wantEntry(ans.Entry, "v", fence)
	if ans.Entry != nil && !s.near(ans.Entry.Fresh, time.Minute) {
		s.Errorf("fresh for %v; want a minute", ans.Entry.Fresh)
	}
	s.grant(b, k, fleet.Ask{NewerThan: fence})
	fence = s.write(a, k, fleet.Write{Entry: entry("w")}) // ends the lease
	s.wantEntry(s.expect(b, k, fleet.Ask{NewerThan: fence}, fleet.GrantLease).Entry, "w", fence)
}

func (s *suite) writeExpires() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	fence := s.write(a, k, fleet.Write{Entry: entry("v")})
	s.write(b, k, fleet.Write{Expire: true})
	ans := s.expect(a, k, fleet.Ask{}, fleet.GrantLease)
	s.wantEntry(ans.Entry, "v", fence)
	if ans.Entry != nil && ans.Entry.Fresh > 0 {
		s.Errorf("fresh for %v after Expire; want 0 or less", ans.Entry.Fresh)
	}
	s.write(b, k, fleet.Write{Expire: true}) // ends the lease
	ans = s.expect(a, k, fleet.Ask{}, fleet.GrantLease)
	s.settle(a, k, ans.Fence, failed("no", time.Minute, time.Minute), true)
	s.write(b, k, fleet.Write{Expire: true}) // ends the cooling
	s.expect(a, k, fleet.Ask{}, fleet.GrantLease)
	nothing := s.key("nothing")
	s.write(b, nothing, fleet.Write{Expire: true})
	s.wantEntry(s.expect(a, nothing, fleet.Ask{}, fleet.GrantLease).Entry, "", 0)
}

func (s *suite) writeRemoves() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	s.write(a, k, fleet.Write{Entry: entry("v")})
	s.write(b, k, fleet.Write{})
	ans := s.expect(a, k, fleet.Ask{}, fleet.GrantLease)
	s.wantEntry(ans.Entry, "", 0)
	s.settle(a, k, ans.Fence, failed("no", time.Minute, time.Minute), true)
	s.write(b, k, fleet.Write{}) // ends the cooling
	s.expect(a, k, fleet.Ask{}, fleet.GrantLease)
	s.write(b, k, fleet.Write{}) // ends the lease
	s.expect(a, k, fleet.Ask{}, fleet.GrantLease)
}

func (s *suite) tagsCount() {
	a, b, ns := s.f.Instance(), s.f.Instance(), s.namespace
	if st := s.tags(a, ns, "", "x"); st.Each[0] != 0 || st.Each[1] != 0 {
		s.Errorf("Tags of a new namespace = %+v; want 0 for each", st)
	}
	one := s.invalidate(a, ns, "x", "y")
	two := s.invalidate(b, ns, "y", "z{}\x00ü")
	all := s.invalidate(a, ns, "")
	if one < 1 || two <= one || all <= two {
		s.Errorf("InvalidateTags = %d, %d, %d; want growing numbers", one, two, all)
	}
	want := fmt.Sprint(fleet.TagState{Last: all, Each: []uint64{two, one, 0, two, all}, Expired: make([]uint64, 5)})
	if st := s.tags(b, ns, "y", "x", "never", "z{}\x00ü", ""); fmt.Sprint(st) != want {
		s.Errorf("Tags = %v; want %s", st, want)
	}
	if st := s.tags(b, ns); st.Last != all {
		s.Errorf("Tags of none = %v; want last %d", st, all)
	}
	many := make([]string, fleet.MaxTags)
	for i := range many {
		many[i] = fmt.Sprint("tag", i)
	}
	seq := s.invalidate(a, ns, many...)
	for i, each := range s.tags(b, ns, many...).Each {
		if each != seq {
			s.Fatalf("the number of %s is %d; want %d", many[i], each, seq)
		}
	}
}

// tagsExpire: expiries are recorded separately from invalidations, with numbers from
// the same sequence.
func (s *suite) tagsExpire() {
	a, b, ns := s.f.Instance(), s.f.Instance(), s.namespace
	e := s.listen(b, ns)
	gone := s.invalidate(a, ns, "x")
	stale := s.expireTags(a, ns, "x", "y{}\x00ü")
	all := s.expireTags(b, ns, "")
	if stale <= gone || all <= stale {
		s.Errorf("ExpireTags = %d, %d after %d; want growing numbers", stale, all, gone)
	}
	want := fmt.Sprint(fleet.TagState{Last: all, Each: []uint64{gone, 0, 0}, Expired: []uint64{stale, stale, all}})
	if st := s.tags(b, ns, "x", "y{}\x00ü", ""); fmt.Sprint(st) != want {
		s.Errorf("Tags = %v; want %s", st, want)
	}
	s.eventually(time.Second, "the watcher gets the expiries", func() bool {
		return e.has(tagged("x", gone), expired("x", stale), expired("y{}\x00ü", stale), expired("", all))
	})
	before := s.expect(a, s.key("k"), fleet.Ask{}, fleet.GrantLease)
	if before.Now < all || before.Now > all+uint64(time.Hour.Microseconds()) {
		s.Errorf("Answer.Now = %d after %d; want the engine's time", before.Now, all)
	}
}

func (s *suite) tagsOverARestart() {
	if s.f.Stop == nil || s.f.Start == nil {
		s.Log("not run: the engine cannot be restarted")
		return
	}
	t := s.f.Instance()
	before := s.invalidate(t, s.namespace, "x")
	s.f.Stop()
	s.f.Start()
	s.recover(t)
	// Otherwise a load that knows the number from before would count as newer than
	// later invalidations.
	if after := s.invalidate(t, s.namespace, "x"); after <= before {
		s.Errorf("InvalidateTags after a restart = %d; want more than %d", after, before)
	}
}

func (s *suite) watchTells() {
	a, b := s.f.Instance(), s.f.Instance()
	mine, others := s.listen(a, s.namespace), s.listen(b, s.namespace)
	elsewhere := s.listen(b, s.namespace+"x")
	loaded, set, expired, removed, released2, failed2 := s.key("loaded"), s.key("set"), s.key("expired"), s.key("removed"), s.key("given up"), s.key("failed")

	f1 := s.grant(a, loaded, fleet.Ask{})
	s.settle(a, loaded, f1, stored("v"), true)
	f2 := s.write(a, set, fleet.Write{Entry: entry("v")})
	f3 := s.write(a, expired, fleet.Write{Expire: true})
	f4 := s.write(a, removed, fleet.Write{})
	s.settle(a, released2, s.grant(a, released2, fleet.Ask{}), fleet.Outcome{}, true)
	s.settle(a, failed2, s.grant(a, failed2, fleet.Ask{}), failed("no", time.Minute, time.Minute), true)
	seq := s.invalidate(a, s.namespace, "x")
	all := s.invalidate(a, s.namespace, "")
	for _, e := range []*ear{mine, others} {
		for _, call := range []string{
			changed("loaded", f1, false), changed("set", f2, false), changed("expired", f3, false), changed("removed", f4, true),
			released("given up"), released("failed"), tagged("x", seq), tagged("", all),
		} {
			s.hears(e, call)
		}
	}
	if told := elsewhere.told(); len(told) > 0 {
		s.Errorf("the Watcher of another namespace got %q; want nothing", told)
	}
}

func (s *suite) watchInOrder() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	e := s.listen(b, s.namespace)
	var want []string
	for i := range 50 {
		w := fleet.Write{}
		if i%2 == 0 {
			w.Entry = entry("v")
		}
		want = append(want, changed("k", s.write(a, k, w), w.Entry == nil))
	}
	s.hears(e, want...)
}

func (s *suite) watchEnds() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	e, other := &ear{}, s.listen(b, s.namespace)
	stop, err := b.Watch(s.namespace, e)
	if err != nil {
		s.Fatalf("Watch = %v; want nil", err)
	}
	first := changed("k", s.write(a, k, fleet.Write{}), true)
	s.hears(e, first)
	stop()
	before := len(e.told())
	second := changed("k", s.write(a, k, fleet.Write{}), true)
	s.hears(other, first, second)
	time.Sleep(s.f.Slack)
	if told := e.told(); len(told) != before {
		s.Errorf("a Watcher got %q after stop; want nothing", told[before:])
	}
}

// names returns keys that are known to cause errors in engines.
func names() []string {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return []string{
		"", " ", "k", "K", "{", "}", "{}", "{a}b", "a{b}", "{a}{b}", "}{", "\x00", "a\x00b", "a\x00", "a:b", "a:", ":", "a|b", "*", "?", "[a]", "a\r\nb",
		"日本語", "é", "e\u0301", "\xff\xfe", "%s", "$", "0", "-1", string(every),
		strings.Repeat("x", fleet.MaxName), strings.Repeat("x", fleet.MaxName-1) + "y", strings.Repeat("\x00", fleet.MaxName),
	}
}

func (s *suite) anyBytes() {
	t, all := s.f.Instance(), names()
	fences := make([]uint64, len(all))
	e := s.listen(s.f.Instance(), s.namespace)
	for i, name := range all {
		fences[i] = s.write(t, s.key(name), fleet.Write{Entry: entry(fmt.Sprint("value ", i))})
	}
	for i, name := range all {
		s.wantEntry(s.expect(t, s.key(name), fleet.Ask{}, fleet.GrantFresh).Entry, fmt.Sprint("value ", i), fences[i])
		s.hears(e, changed(name, fences[i], false))
	}
	for i, name := range all { // and as namespaces, which a shared engine may already contain
		k := fleet.Key{Namespace: name, Name: s.namespace}
		fences[i] = s.write(t, k, fleet.Write{Entry: entry(fmt.Sprint("value ", i))})
		s.invalidate(t, name, s.namespace)
	}
	for i, name := range all {
		k := fleet.Key{Namespace: name, Name: s.namespace}
		s.wantEntry(s.expect(t, k, fleet.Ask{}, fleet.GrantFresh).Entry, fmt.Sprint("value ", i), fences[i])
		s.write(t, k, fleet.Write{})
		if st := s.tags(t, name, s.namespace); st.Each[0] == 0 {
			s.Errorf("the namespace %.80q has no record of a tag", name)
		}
	}
}

func (s *suite) namespacesAreApart() {
	t := s.f.Instance()
	// Concatenated carelessly, these are the same key.
	pairs := []fleet.Key{
		{Namespace: s.namespace + "a", Name: "b:c"}, {Namespace: s.namespace + "a:b", Name: "c"}, {Namespace: s.namespace + "a:b:c"},
		{Namespace: s.namespace + "a{b", Name: "c}"}, {Namespace: s.namespace + "a", Name: "{bc}"}, {Namespace: s.namespace + "a{", Name: "bc}"},
		{Namespace: s.namespace + "a\x00", Name: "b"}, {Namespace: s.namespace + "a", Name: "\x00b"},
	}
	for i, k := range pairs {
		s.wantEntry(s.expect(t, k, fleet.Ask{Lease: time.Minute}, fleet.GrantLease).Entry, "", 0)
		s.write(t, k, fleet.Write{Entry: entry(fmt.Sprint(i))})
	}
	for i, k := range pairs {
		if ans := s.expect(t, k, fleet.Ask{}, fleet.GrantFresh); ans.Entry != nil && string(ans.Entry.Data) != fmt.Sprint(i) {
			s.Errorf("the entry of %q is %q; want %d", k, ans.Entry.Data, i)
		}
	}
	s.invalidate(t, s.namespace+"a", "x", "")
	if st := s.tags(t, s.namespace+"a:b", "x", ""); st.Each[0] != 0 || st.Each[1] != 0 {
		s.Errorf("another namespace's tags = %v; want 0 for each", st)
	}
}

func (s *suite) largeData() {
	a, b := s.f.Instance(), s.f.Instance()
	for _, size := range []int{1, 64 << 10, 1 << 20} {
		k, data := s.key(fmt.Sprint(size)), make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		// A Write that sets, because it can be repeated if a busy machine needs
		// longer than the deadline for so much data.
		set := fleet.Write{Entry: &fleet.Entry{Data: data, Fresh: time.Minute, Keep: time.Minute}}
		_, err := a.Write(context.Background(), k, set)
		for range 5 {
			if errors.Is(err, fleet.ErrUnavailable) {
				_, err = a.Write(context.Background(), k, set)
			}
		}
		if err != nil {
			s.Fatalf("Write of %d bytes = %v; want nil", size, err)
		}
		if ans := s.expect(b, k, fleet.Ask{}, fleet.GrantFresh); ans.Entry == nil || !bytes.Equal(ans.Entry.Data, data) {
			s.Errorf("%d bytes were returned changed", size)
		}
	}
}

func (s *suite) nothingIsKept() {
	t, k := s.f.Instance(), s.key("k")
	data := []byte("value")
	fence := s.write(t, k, fleet.Write{Entry: &fleet.Entry{Data: data, Fresh: time.Minute, Keep: time.Minute}})
	copy(data, "XXXXX")
	ans := s.expect(t, k, fleet.Ask{}, fleet.GrantFresh)
	s.wantEntry(ans.Entry, "value", fence)
	copy(ans.Entry.Data, "YYYYY")
	s.wantEntry(s.expect(t, k, fleet.Ask{}, fleet.GrantFresh).Entry, "value", fence)
}

func (s *suite) meters(n int) []fleet.Meter {
	var all []fleet.Meter
	for range n {
		m := s.f.Instance().Abilities().Meter
		if m == nil {
			s.Log("not run: the engine does not count permits")
			return nil
		}
		all = append(all, m)
	}
	return all
}

// takeNeverAbove makes callers take as much as they can, and counts. In any order,
// the total never exceeds rate * time + burst.
func (s *suite) takeNeverAbove() {
	meters := s.meters(4)
	if meters == nil {
		return
	}
	rate := fleet.Rate{Permits: 100, Per: time.Second, Burst: 10}
	start, end := time.Now(), time.Now().Add(time.Second)
	var mu sync.Mutex
	var wg sync.WaitGroup
	got := 0
	for i := range 8 {
		wg.Go(func() {
			for n := 1; time.Now().Before(end); n = n%7 + 1 {
				taken, err := meters[i%4].Take(context.Background(), s.key("rate"), rate, n)
				if err == nil && (taken.Permits < 0 || taken.Permits > n) {
					s.Errorf("Take(%d) = %+v; want 0 to %d", n, taken, n)
				}
				mu.Lock()
				got += taken.Permits
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	most := int(time.Since(start).Seconds()*100) + 10 + 1 // one more for the fraction
	if got > most || got < most/4 {                       // how many are requested depends on the machine
		s.Errorf("%d permits in %v; want at most %d, and at least a quarter of that", got, time.Since(start), most)
	}
}

func (s *suite) takeRetry() {
	meters := s.meters(1)
	if meters == nil {
		return
	}
	rate := fleet.Rate{Permits: 2, Per: time.Second, Burst: 3}
	take := func(n int) fleet.Taken {
		s.Helper()
		taken, err := meters[0].Take(context.Background(), s.key("retry"), rate, n)
		if err != nil {
			s.Fatalf("Take(%d) = %v; want nil", n, err)
		}
		return taken
	}
	if taken := take(5); taken.Permits != 3 {
		s.Errorf("Take(5) = %+v; want the burst of 3", taken)
	}
	taken := take(1)
	if taken.Permits != 0 || !s.near(taken.RetryAfter, 500*time.Millisecond) {
		s.Errorf("Take(1) = %+v; want none, and RetryAfter 500ms", taken)
	}
	time.Sleep(taken.RetryAfter + time.Millisecond)
	if taken := take(5); taken.Permits != 1 {
		s.Errorf("Take(5) after RetryAfter = %+v; want 1", taken)
	}
	if _, err := meters[0].Take(context.Background(), s.key("retry"), fleet.Rate{}, 1); err == nil {
		s.Error("Take of no rate = nil; want an error")
	}
}

// takeOtherRate: a different rate keeps the number of permits taken, which then come
// back at the new rate.
func (s *suite) takeOtherRate() {
	meters := s.meters(2)
	if meters == nil {
		return
	}
	slow, fast := fleet.Rate{Permits: 1, Per: time.Hour, Burst: 10}, fleet.Rate{Permits: 2, Per: time.Second, Burst: 12}
	for _, row := range []struct {
		by          int
		rate        fleet.Rate
		permits     int
		least, most time.Duration // RetryAfter
	}{
		{0, slow, 10, 0, 0},
		{1, fast, 2, 0, 0},
		{1, fast, 0, 1, time.Second}, // not the ten hours of the slow rate
		{0, slow, 0, 2 * time.Hour, 3*time.Hour + time.Second},
	} {
		got, err := meters[row.by].Take(context.Background(), s.key("other rate"), row.rate, 20)
		if err != nil || got.Permits != row.permits || got.RetryAfter < row.least || got.RetryAfter > row.most {
			s.Errorf("Take at %+v = %+v, %v; want %d permits, and RetryAfter from %v to %v", row.rate, got, err, row.permits, row.least, row.most)
		}
	}
}
