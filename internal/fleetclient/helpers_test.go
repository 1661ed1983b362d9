package fleetclient_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
	"github.com/weir-go/weir/internal/fleetclient"
)

const lease = 600 * time.Millisecond

// An instance is a Client on a connection that can fail.
type instance struct {
	*fleetclient.Client
	t    *testing.T
	link *fleettest.Faults

	mu    sync.Mutex
	hooks []string

	// asking is held while the instance changes something. Its pushes wait for
	// that: if they came before the reply, the hooks would report its own
	// changes.
	asking sync.RWMutex
}

// patient is a Tier whose pushes arrive after the reply.
type patient struct {
	fleet.Tier
	asking *sync.RWMutex
}

func (p patient) Watch(namespace string, w fleet.Watcher) (func(), error) {
	return p.Tier.Watch(namespace, patientWatcher{w, p.asking})
}

type patientWatcher struct {
	fleet.Watcher
	asking *sync.RWMutex
}

func (w patientWatcher) Changed(name string, fence uint64, removed bool) {
	w.asking.RLock()
	defer w.asking.RUnlock()
	w.Watcher.Changed(name, fence, removed)
}

func (w patientWatcher) Tagged(tag string, seq uint64) {
	w.asking.RLock()
	defer w.asking.RUnlock()
	w.Watcher.Tagged(tag, seq)
}

func (in *instance) hook(format string, args ...any) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.hooks = append(in.hooks, fmt.Sprintf(format, args...))
}

// told expects exactly these hook calls since the last check.
func (in *instance) told(calls ...string) {
	in.t.Helper()
	synctest.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	if fmt.Sprint(in.hooks) != fmt.Sprint(calls) {
		in.t.Errorf("hooks were called %q; want %q", in.hooks, calls)
	}
	in.hooks = nil
}

// bare is a Tier in front of which the Client puts no Breaker, so that a test sees each
// request, and each push in its order.
type bare struct{ fleet.Tier }

func (b bare) Abilities() fleet.Abilities {
	a := b.Tier.Abilities()
	a.InProcess = true
	return a
}

// instances returns n Clients on one Memory.
func instances(t *testing.T, n int) []*instance {
	t.Helper()
	m := fleet.NewMemory(fleet.MemoryOptions{})
	all := make([]*instance, n)
	for i := range all {
		in := &instance{t: t}
		in.link = fleettest.NewFaults(patient{m, &in.asking})
		var err error
		in.Client, err = fleetclient.New(fleetclient.Options{
			Tier: bare{in.link}, Namespace: "n", Lease: lease, Keep: time.Hour, Codec: "test",
			Hooks: fleetclient.Hooks{
				Changed: func(name string, fence uint64, removed bool) { in.hook("changed %s %v", name, removed) },
				Tagged:  func(tag string) { in.hook("tagged %s", tag) },
				Expired: func(tag string) { in.hook("expired %s", tag) },
				Reset:   func() { in.hook("reset") },
			},
			PushValue: 1 << 10, PushMemory: 1 << 20, MemoryCap: time.Minute,
		})
		if err != nil {
			t.Fatalf("New = %v; want nil", err)
		}
		t.Cleanup(func() {
			in.link.Unhang()
			if err := in.Close(context.Background()); err != nil {
				t.Errorf("Close = %v; want nil", err)
			}
		})
		all[i] = in
	}
	return all
}

// entry returns an entry with this text, loaded when seq was the last known
// invalidation.
func entry(text string, seq uint64, tags ...string) *fleet.Entry {
	v := fleet.Value{Codec: "test", Data: []byte(text), TagSeq: seq, Tags: tags}
	data, err := v.AppendBinary(nil)
	if err != nil {
		panic(err) // unreachable: no duration is negative
	}
	return &fleet.Entry{Data: data, Fresh: time.Minute, Keep: time.Hour}
}

func stored(text string, seq uint64, tags ...string) fleet.Outcome {
	return fleet.Outcome{Entry: entry(text, seq, tags...)}
}

// ask calls Ask and expects this grant and this text; "" for no value.
func ask(t *testing.T, s *fleetclient.Subscription, a fleet.Ask, grant fleet.Grant, text string) fleetclient.Answer {
	t.Helper()
	ans, err := s.Ask(t.Context(), a)
	got := ""
	if ans.Value != nil {
		got = string(ans.Value.Data)
	}
	if err != nil || ans.Grant != grant || got != text {
		t.Errorf("Ask = %v, %q, %v; want %v, %q, nil", ans.Grant, got, err, grant, text)
	}
	return ans
}

// load loads the key "k" under a lease.
func (in *instance) load(text string, tags ...string) {
	in.t.Helper()
	s := in.Subscribe("k")
	defer s.Close()
	a := ask(in.t, s, fleet.Ask{NewerThan: fleet.AnyFence}, fleet.GrantLease, "")
	settles(in.t, s.Hold(a.Fence, nil), stored(text, in.TagSeq(), tags...), true)
}

func settles(t *testing.T, l *fleetclient.Lease, o fleet.Outcome, want bool) {
	t.Helper()
	if ok, err := l.Settle(o); ok != want || err != nil {
		t.Errorf("Settle = %v, %v; want %v, nil", ok, err, want)
	}
}

func (in *instance) writes(w fleet.Write) uint64 {
	in.t.Helper()
	in.asking.Lock()
	defer in.asking.Unlock()
	fence, err := in.Write(in.t.Context(), "k", w)
	if err != nil {
		in.t.Fatalf("Write = %v; want nil", err)
	}
	return fence
}

func (in *instance) invalidates(tags ...string) {
	in.t.Helper()
	in.asking.Lock()
	defer in.asking.Unlock()
	if err := in.InvalidateTags(in.t.Context(), tags...); err != nil {
		in.t.Fatalf("InvalidateTags = %v; want nil", err)
	}
}
