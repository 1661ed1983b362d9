package fleettest

import (
	"time"

	"github.com/weir-go/weir/fleet"
)

// valuesArePushed covers Entry.Push, Ask.Push and Watcher.Pushed.
func (s *suite) valuesArePushed() {
	a, b, k := s.f.Instance(), s.f.Instance(), s.key("k")
	e := s.listen(b, s.namespace)
	push := func(yes bool) *fleet.Entry {
		v := entry("v\x00:}")
		v.Push = yes
		return v
	}
	load := func(yes bool) uint64 {
		s.Helper()
		fence := s.grant(a, k, fleet.Ask{NewerThan: fleet.AnyFence})
		s.settle(a, k, fence, fleet.Outcome{Entry: push(yes)}, true)
		return fence
	}
	value := func(fence uint64) string { return pushed("k", fence, "v\x00:}") }
	is := func(what string, fence uint64, want bool) {
		s.Helper()
		if want {
			s.hears(e, value(fence), changed("k", fence, false))
			return
		}
		s.hears(e, changed("k", fence, false))
		if e.has(value(fence)) {
			s.Errorf("%s pushed its value; want none", what)
		}
	}
	ask := func() fleet.Answer { return s.expect(b, k, fleet.Ask{Push: true}, fleet.GrantFresh) }

	is("a store without requests", load(true), false)
	s.expect(b, k, fleet.Ask{}, fleet.GrantFresh)
	is("a store after a request that a push would not have saved", load(true), false)
	before := ask().Now
	fence := load(true)
	is("a store after a request", fence, true)
	v, now := e.last()
	if after := ask().Now; v.Fence != fence || v.Fresh != time.Minute || now < before || now > after {
		s.Errorf("pushed %d, fresh for %v at %d; want %d, a minute, from %d to %d", v.Fence, v.Fresh, now, fence, before, after)
	}
	for range fleet.PushRun - 1 {
		is("a later store", load(true), true)
	}
	is("a later store", s.write(a, k, fleet.Write{Entry: push(true)}), true)
	is("the store after the last of a run", load(true), false)
	ask()
	is("a value that must not be pushed", load(false), false)
	ask()
	is("the first that may be pushed again", load(true), false)
	ask()
	is("a Write after a request", s.write(a, k, fleet.Write{Entry: push(true)}), true)

	k = s.key("k2")
	fence = s.grant(a, k, fleet.Ask{})
	s.expect(b, k, fleet.Ask{Push: true}, fleet.GrantHeld)
	s.settle(a, k, fence, fleet.Outcome{Entry: push(true)}, true)
	s.hears(e, pushed("k2", fence, "v\x00:}"), changed("k2", fence, false))
	s.hears(e, changed("k2", s.write(a, k, fleet.Write{}), true))
}

// last returns the value that was pushed last, and its time.
func (e *ear) last() (fleet.Entry, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.entry, e.now
}
