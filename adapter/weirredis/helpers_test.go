package weirredis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// open returns a Tier on a server, with deadlines that a busy machine can meet.
func open(t testing.TB, s *redistest.Server, change ...func(*weirredis.Options)) *weirredis.Tier {
	t.Helper()
	o := weirredis.Options{
		Addresses: []string{s.Addr}, PingInterval: 200 * time.Millisecond, DialTimeout: 5 * time.Second,
		Breaker: fleet.BreakerOptions{Deadline: 5 * time.Second},
	}
	for _, c := range change {
		c(&o)
	}
	tier, err := weirredis.New(t.Context(), o)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() { _ = tier.Close(context.Background()) })
	return tier
}

// A recorder is a Watcher that records its calls as text.
type recorder struct{ told chan string }

var _ fleet.Watcher = (*recorder)(nil)

func newRecorder() *recorder { return &recorder{told: make(chan string, 1<<16)} }

func (r *recorder) Changed(name string, fence uint64, removed bool) {
	r.told <- fmt.Sprintf("changed %q %d %v", name, fence, removed)
}
func (r *recorder) Pushed(name string, e fleet.Entry, now uint64) {
	r.told <- fmt.Sprintf("pushed %q %d %q %v", name, e.Fence, e.Data, e.Fresh)
}
func (r *recorder) Released(name string)           { r.told <- fmt.Sprintf("released %q", name) }
func (r *recorder) Expired(tag string, seq uint64) { r.told <- fmt.Sprintf("expired %q %d", tag, seq) }
func (r *recorder) Tagged(tag string, seq uint64)  { r.told <- fmt.Sprintf("tagged %q %d", tag, seq) }
func (r *recorder) Lost()                          { r.told <- "lost" }
func (r *recorder) Recovered()                     { r.Reset() }
func (r *recorder) Reset()                         { r.told <- "reset" }

// patience is how long a test waits for an expected event.
const patience = 30 * time.Second

// await returns when r gets want; it ignores other calls before it.
func (r *recorder) await(t testing.TB, want string) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var seen []string
	for {
		select {
		case got := <-r.told:
			if got == want {
				return
			}
			seen = append(seen, got)
		case <-timer.C:
			t.Fatalf("got %q; want %q", seen, want)
		}
	}
}

// next fails unless r's next call is want.
func (r *recorder) next(t testing.TB, want string) {
	t.Helper()
	select {
	case got := <-r.told:
		if got != want {
			t.Fatalf("got %q; want %q", got, want)
		}
	case <-time.After(patience):
		t.Fatalf("got nothing; want %q", want)
	}
}

// watch begins a watch that ends with the test.
func watch(t testing.TB, tier fleet.Tier, namespace string) *recorder {
	t.Helper()
	r := newRecorder()
	stop, err := tier.Watch(namespace, r)
	if err != nil {
		t.Fatalf("Watch(%q) = %v", namespace, err)
	}
	t.Cleanup(stop)
	return r
}

func key(name string) fleet.Key { return fleet.Key{Namespace: "ns", Name: name} }

func acquire(t testing.TB, tier fleet.Tier, k fleet.Key, a fleet.Ask) fleet.Answer {
	t.Helper()
	if a.Lease == 0 {
		a.Lease = time.Minute
	}
	ans, err := tier.Acquire(t.Context(), k, a)
	if err != nil {
		t.Fatalf("Acquire(%q) = %v", k, err)
	}
	return ans
}

// granted acquires a lease and returns its fence.
func granted(t testing.TB, tier fleet.Tier, k fleet.Key) uint64 {
	t.Helper()
	a := acquire(t, tier, k, fleet.Ask{})
	if a.Grant != fleet.GrantLease {
		t.Fatalf("Acquire(%q) = %v; want granted", k, a.Grant)
	}
	return a.Fence
}

func entry(data string) *fleet.Entry {
	return &fleet.Entry{Data: []byte(data), Fresh: time.Minute, Keep: time.Hour}
}

// settle calls Settle and fails unless its result is want.
func settle(t testing.TB, tier fleet.Tier, k fleet.Key, fence uint64, o fleet.Outcome, want bool) {
	t.Helper()
	if ok, err := tier.Settle(t.Context(), k, fence, o); ok != want || err != nil {
		t.Fatalf("Settle(%q, %d) = %v, %v; want %v", k, fence, ok, err, want)
	}
}

func write(t testing.TB, tier fleet.Tier, k fleet.Key, w fleet.Write) uint64 {
	t.Helper()
	fence, err := tier.Write(t.Context(), k, w)
	if err != nil {
		t.Fatalf("Write(%q) = %v", k, err)
	}
	return fence
}

// eventually waits until ok reports true, in real time, because servers and clients
// run in it.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}
