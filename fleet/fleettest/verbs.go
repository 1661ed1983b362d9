package fleettest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/fleet"
)

// acquire calls Acquire, with a lease of one minute unless a has one.
func (s *suite) acquire(t fleet.Tier, k fleet.Key, a fleet.Ask) fleet.Answer {
	s.Helper()
	if a.Lease == 0 {
		a.Lease = time.Minute
	}
	ans, err := t.Acquire(context.Background(), k, a)
	if err != nil {
		s.Fatalf("Acquire(%.80q) = %v; want nil", k.Name, err)
	}
	return ans
}

// grant is acquire for a caller that must get a lease. It returns its fence.
func (s *suite) grant(t fleet.Tier, k fleet.Key, a fleet.Ask) uint64 {
	s.Helper()
	ans := s.acquire(t, k, a)
	if ans.Grant != fleet.GrantLease {
		s.Fatalf("Acquire(%.80q, %+v) = %v; want granted", k.Name, a, ans.Grant)
	}
	return ans.Fence
}

// expect is acquire, and fails unless the grant is want.
func (s *suite) expect(t fleet.Tier, k fleet.Key, a fleet.Ask, want fleet.Grant) fleet.Answer {
	s.Helper()
	ans := s.acquire(t, k, a)
	if ans.Grant != want {
		s.Errorf("Acquire(%.80q, %+v) = %v; want %v", k.Name, a, ans.Grant, want)
	}
	return ans
}

// settle calls Settle and fails unless its result is want.
func (s *suite) settle(t fleet.Tier, k fleet.Key, fence uint64, o fleet.Outcome, want bool) {
	s.Helper()
	if ok, err := t.Settle(context.Background(), k, fence, o); ok != want || err != nil {
		s.Errorf("Settle(%.80q, %d) = %v, %v; want %v, nil", k.Name, fence, ok, err, want)
	}
}

func (s *suite) extend(t fleet.Tier, k fleet.Key, fence uint64, d time.Duration, want bool) {
	s.Helper()
	if ok, err := t.Extend(context.Background(), k, fence, d); ok != want || err != nil {
		s.Errorf("Extend(%.80q, %d) = %v, %v; want %v, nil", k.Name, fence, ok, err, want)
	}
}

func (s *suite) write(t fleet.Tier, k fleet.Key, w fleet.Write) uint64 {
	s.Helper()
	fence, err := t.Write(context.Background(), k, w)
	if err != nil {
		s.Fatalf("Write(%.80q) = %v; want nil", k.Name, err)
	}
	return fence
}

func (s *suite) invalidate(t fleet.Tier, namespace string, tags ...string) uint64 {
	s.Helper()
	seq, err := t.InvalidateTags(context.Background(), namespace, tags, time.Hour)
	if err != nil {
		s.Fatalf("InvalidateTags(%.80q) = %v; want nil", tags, err)
	}
	return seq
}

func (s *suite) expireTags(t fleet.Tier, namespace string, tags ...string) uint64 {
	s.Helper()
	seq, err := t.ExpireTags(context.Background(), namespace, tags, time.Hour)
	if err != nil {
		s.Fatalf("ExpireTags(%.80q) = %v; want nil", tags, err)
	}
	return seq
}

func (s *suite) tags(t fleet.Tier, namespace string, tags ...string) fleet.TagState {
	s.Helper()
	st, err := t.Tags(context.Background(), namespace, tags)
	if err != nil || len(st.Each) != len(tags) {
		s.Fatalf("Tags(%.80q) = %+v, %v; want %d numbers", tags, st, err, len(tags))
	}
	return st
}

// entry returns an Entry that is fresh for a minute and kept for an hour.
func entry(data string) *fleet.Entry {
	return &fleet.Entry{Data: []byte(data), Fresh: time.Minute, Keep: time.Hour}
}

func stored(data string) fleet.Outcome { return fleet.Outcome{Entry: entry(data)} }

func failed(text string, cool, most time.Duration) fleet.Outcome {
	return fleet.Outcome{Failure: fleet.Failure{Kind: "kind", Text: text}, Cool: cool, MaxCool: most}
}

// wantEntry fails unless the stored entry is data; an empty data means none.
func (s *suite) wantEntry(e *fleet.Entry, data string, fence uint64) {
	s.Helper()
	switch {
	case data == "" && e != nil:
		s.Errorf("the entry is %.80q; want none", e.Data)
	case data == "":
	case e == nil:
		s.Errorf("there is no entry; want %.80q", data)
	case string(e.Data) != data || e.Fence != fence:
		s.Errorf("the entry is %.80q of %d; want %.80q of %d", e.Data, e.Fence, data, fence)
	}
}

// An ear is a Watcher that records its calls.
type ear struct {
	mu    sync.Mutex
	calls []string
	inUse bool        // a call is in progress
	twice bool        // two calls overlapped
	entry fleet.Entry // the last pushed value
	now   uint64      // its time
}

func (e *ear) note(format string, args ...any) {
	e.mu.Lock()
	e.twice = e.twice || e.inUse
	e.inUse = true
	e.calls = append(e.calls, fmt.Sprintf(format, args...))
	e.mu.Unlock()
	time.Sleep(10 * time.Microsecond) // gives an overlapping call time to arrive
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inUse = false
}

func changed(name string, fence uint64, removed bool) string {
	return fmt.Sprintf("changed %q %d %v", name, fence, removed)
}
func pushed(name string, fence uint64, data string) string {
	return fmt.Sprintf("pushed %q %d %q", name, fence, data)
}
func released(name string) string           { return fmt.Sprintf("released %q", name) }
func tagged(tag string, seq uint64) string  { return fmt.Sprintf("tagged %q %d", tag, seq) }
func expired(tag string, seq uint64) string { return fmt.Sprintf("expired %q %d", tag, seq) }

func (e *ear) Changed(name string, fence uint64, removed bool) {
	e.note("%s", changed(name, fence, removed))
}
func (e *ear) Pushed(name string, v fleet.Entry, now uint64) {
	e.mu.Lock()
	e.entry, e.now = v, now
	e.mu.Unlock()
	e.note("%s", pushed(name, v.Fence, string(v.Data)))
}
func (e *ear) Released(name string)           { e.note("%s", released(name)) }
func (e *ear) Tagged(tag string, seq uint64)  { e.note("%s", tagged(tag, seq)) }
func (e *ear) Expired(tag string, seq uint64) { e.note("%s", expired(tag, seq)) }
func (e *ear) Lost()                          { e.note("lost") }
func (e *ear) Recovered()                     { e.note("recovered") }
func (e *ear) Reset()                         { e.note("reset") }

// has reports whether e got all of these calls in this order, possibly with others in
// between.
func (e *ear) has(calls ...string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.calls {
		if len(calls) > 0 && c == calls[0] {
			calls = calls[1:]
		}
	}
	return len(calls) == 0
}

func (e *ear) told() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

// listen begins a watch that ends with the subtest.
func (s *suite) listen(t fleet.Tier, namespace string) *ear {
	s.Helper()
	e := &ear{}
	stop, err := t.Watch(namespace, e)
	if err != nil {
		s.Fatalf("Watch = %v; want nil", err)
	}
	s.Cleanup(func() {
		stop()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.twice {
			s.Error("a Watcher had overlapping calls; want one after another")
		}
	})
	return e
}

// hears waits until e has got all of these calls, in this order.
func (s *suite) hears(e *ear, calls ...string) {
	s.Helper()
	for end := time.Now().Add(time.Second); !e.has(calls...); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Errorf("the Watcher got %.200q; want %.200q", e.told(), calls)
			return
		}
	}
}
