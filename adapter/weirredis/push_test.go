package weirredis_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// trackers returns the IDs of the tracking connections of s.
func trackers(s *redistest.Server) (ids []string) {
	for line := range strings.Lines(s.Text("CLIENT", "LIST")) {
		m := trackerLine.FindStringSubmatch(line)
		if m != nil && strings.Contains(m[2], "B") { // broadcast
			ids = append(ids, m[1])
		}
	}
	return ids
}

var trackerLine = regexp.MustCompile(`^id=(\d+) .* name=weir .* flags=(\w+) `)

// Every change of a key, and nothing else, is pushed to all instances, including the
// writer.
func TestPushes(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	a, b := open(t, s), open(t, s)
	other := open(t, s, func(o *weirredis.Options) { o.Prefix = "weir2" })
	recorders := []*recorder{watch(t, a, "ns"), watch(t, b, "ns")}
	silent := []*recorder{watch(t, b, "ns2"), watch(t, other, "ns")}
	k := key("k")
	tell := func(format string, args ...any) {
		t.Helper()
		for _, r := range recorders {
			r.next(t, fmt.Sprintf(format, args...))
		}
	}

	fence := granted(t, a, k)
	settle(t, a, k, fence, fleet.Outcome{Entry: entry("v")}, true)
	tell("changed %q %d false", "k", fence)
	fence = write(t, a, k, fleet.Write{Expire: true})
	tell("changed %q %d false", "k", fence)
	fence = granted(t, a, k)
	settle(t, a, k, fence, fleet.Outcome{}, true)
	tell("released %q", "k")
	fence = granted(t, a, k)
	settle(t, a, k, fence, fleet.Outcome{Cool: time.Millisecond, Remove: true}, true)
	released := fmt.Sprintf("released %q", "k")
	removed := fmt.Sprintf("changed %q %d true", "k", fence)
	for _, r := range recorders { // one message of the server, in the order of names
		r.next(t, released)
		r.next(t, removed)
	}
	fence = write(t, b, k, fleet.Write{})
	tell("changed %q %d true", "k", fence)
	seq, err := b.InvalidateTags(t.Context(), "ns", []string{"x", ""}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	tell("tagged %q %d", "", seq)
	tell("tagged %q %d", "x", seq)
	settle(t, a, k, 1, fleet.Outcome{Entry: entry("late")}, false)
	acquire(t, a, k, fleet.Ask{})
	write(t, a, fleet.Key{Namespace: "last", Name: "k"}, fleet.Write{})
	for _, r := range silent {
		select {
		case got := <-r.told:
			t.Errorf("another's Watcher got %q; want nothing", got)
		default:
		}
	}
	if keys := s.Texts("KEYS", "*:p:*"); len(keys) != 0 {
		t.Errorf("push keys that remain: %q; want none", keys)
	}
}

// No call is made after stop, whatever is pushed.
func TestWatchStops(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	var stopped, late atomic.Bool
	stop, err := tier.Watch("ns", changed(func() {
		if stopped.Load() {
			late.Store(true)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			for range 200 {
				if _, err := tier.Write(t.Context(), key("k"), fleet.Write{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	stop()
	stopped.Store(true)
	writers.Wait()
	stop() // again
	if late.Load() {
		t.Error("a Watcher was called after stop had returned")
	}
}

type changed func()

func (c changed) Changed(string, uint64, bool)     { c() }
func (changed) Pushed(string, fleet.Entry, uint64) {}
func (changed) Released(string)                    {}
func (changed) Tagged(string, uint64)              {}
func (changed) Expired(string, uint64)             {}
func (changed) Lost()                              {}
func (changed) Recovered()                         {}
func (changed) Reset()                             {}

// The tracking connection is restored and works again, and the loss is reported.
func TestClientKill(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s, func(o *weirredis.Options) { o.PingInterval = time.Minute })
	told := watch(t, tier, "ns")
	for range 5 {
		ids := trackers(s)
		if len(ids) != 1 {
			t.Fatalf("tracking connections: %q; want one", ids)
		}
		s.Do("CLIENT", "KILL", "ID", ids[0])
		told.await(t, "reset") // without waiting for a PING
		fence := write(t, tier, key("k"), fleet.Write{})
		told.await(t, fmt.Sprintf("changed %q %d true", "k", fence))
	}
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	told.await(t, "reset")
	eventually(t, "commands to go through", func() bool {
		_, err := tier.Tags(t.Context(), "ns", nil)
		return err == nil
	})
}

func TestFlushAllResets(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s, func(o *weirredis.Options) { o.PingInterval = time.Minute })
	told := watch(t, tier, "ns")
	for _, how := range []string{"FLUSHALL", "FLUSHDB"} {
		fence := granted(t, tier, key("k"))
		s.Do(how)
		told.next(t, "reset")
		settle(t, tier, key("k"), fence, fleet.Outcome{Entry: entry("of before")}, false)
		if again := granted(t, tier, key("k")); again <= fence {
			t.Errorf("fence = %d after %s; want more than %d", again, how, fence)
		}
		fence = write(t, tier, key("k"), fleet.Write{})
		told.next(t, fmt.Sprintf("changed %q %d true", "k", fence))
	}
}

// A hanging server is detected by the PING, and no caller waits longer than the
// deadline, however many callers there are.
func TestHang(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	const deadline = 200 * time.Millisecond
	tier := open(t, s, func(o *weirredis.Options) { o.Breaker.Deadline = deadline })
	told := watch(t, tier, "ns")
	fence := granted(t, tier, key("k"))
	s.Do("CONFIG", "RESETSTAT")
	s.Pause()
	const callers = 10_000
	var longest atomic.Int64
	var failed atomic.Int64
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			begun := time.Now()
			_, err := tier.Acquire(t.Context(), key(fmt.Sprint(i)), fleet.Ask{Lease: time.Minute})
			if unavailable(err) {
				failed.Add(1)
			}
			for d := int64(time.Since(begun)); ; {
				was := longest.Load()
				if d <= was || longest.CompareAndSwap(was, d) {
					return
				}
			}
		})
	}
	all.Wait()
	// On an idle machine that is the deadline and slightly more. One after another
	// they would wait for half an hour.
	if d := time.Duration(longest.Load()); failed.Load() != callers || d > patience {
		t.Errorf("%d of %d got ErrUnavailable, the last after %v; want all, within %v", failed.Load(), callers, d, deadline)
	}
	told.await(t, "lost")
	s.Resume()
	told.await(t, "reset")
	eventually(t, "the tier to respond", func() bool {
		ok, err := tier.Extend(t.Context(), key("k"), fence, time.Minute)
		return ok && err == nil
	})
	fence = write(t, tier, key("k"), fleet.Write{})
	told.await(t, fmt.Sprintf("changed %q %d true", "k", fence))
	// Most callers had left before their command was sent, so it is not executed
	// late.
	if n := s.Calls()["evalsha"]; n > 1000 {
		t.Errorf("%d commands were executed after the hang; want only those sent before, a few hundred", n)
	}
}

// An engine that was killed and comes back empty is used again.
func TestRestartEmpty(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	told := watch(t, tier, "ns")
	fence := granted(t, tier, key("k"))
	s.Kill()
	told.await(t, "lost")
	if _, err := tier.Tags(t.Context(), "ns", nil); !unavailable(err) {
		t.Errorf("Tags of a dead engine = %v; want unavailable", err)
	}
	s.Restart()
	told.await(t, "reset")
	eventually(t, "the tier to reject the earlier fence", func() bool {
		ok, err := tier.Settle(t.Context(), key("k"), fence, fleet.Outcome{Entry: entry("late")})
		return !ok && err == nil
	})
	if again := granted(t, tier, key("k")); again <= fence {
		t.Errorf("fence = %d after the restart; want more than %d", again, fence)
	}
}

// A service starts without its engine, and uses it once it is up.
func TestStartsWithoutTheEngine(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	s.Kill()
	begun := time.Now()
	tier := open(t, s, func(o *weirredis.Options) { o.DialTimeout = time.Second })
	// Including the delay of a busy machine. The engine starts only after New has
	// returned.
	if d := time.Since(begun); d > patience {
		t.Errorf("New took %v; want at most DialTimeout", d)
	}
	told := watch(t, tier, "ns")
	told.await(t, "lost")
	if _, err := tier.Acquire(t.Context(), key("k"), fleet.Ask{Lease: time.Minute}); !unavailable(err) {
		t.Errorf("Acquire = %v; want unavailable", err)
	}
	s.Restart()
	told.await(t, "reset")
	eventually(t, "the tier to respond", func() bool {
		_, err := tier.Write(t.Context(), key("k"), fleet.Write{})
		return err == nil
	})
	fence := write(t, tier, key("k"), fleet.Write{})
	told.await(t, fmt.Sprintf("changed %q %d true", "k", fence))
}

// A connection that ends while idle loses no command: the first one after a restart
// succeeds.
func TestIdleConnectionEnds(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s, func(o *weirredis.Options) { o.Breaker.Failures = 1 << 20 })
	told := watch(t, tier, "ns")
	for range 5 {
		write(t, tier, key("k"), fleet.Write{})
		s.Restart()
		told.await(t, "reset")
		write(t, tier, key("k"), fleet.Write{})
	}
}

// A silent connection, as behind a firewall that has forgotten it, is detected and
// replaced.
func TestSilentConnection(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	p := newProxy(t, s.Addr)
	tier := open(t, s, func(o *weirredis.Options) {
		o.Addresses = []string{p.addr()}
		o.Breaker.Deadline = 200 * time.Millisecond
	})
	told := watch(t, tier, "ns")
	p.silence() // the existing connections; new ones work
	told.await(t, "lost")
	told.await(t, "reset")
	eventually(t, "commands to go through", func() bool {
		_, err := tier.Write(t.Context(), key("k"), fleet.Write{})
		return err == nil
	})
}

func TestCloseEndsEverything(t *testing.T) {
	s := redistest.Start(t, redistest.Redis(t))
	tier := open(t, s)
	r := newRecorder()
	stop, err := tier.Watch("ns", r)
	if err != nil {
		t.Fatal(err)
	}
	if err := tier.Close(context.Background()); err != nil {
		t.Errorf("Close = %v", err)
	}
	if err := tier.Close(context.Background()); err != nil {
		t.Errorf("the second Close = %v", err)
	}
	stop()
	if _, err := tier.Acquire(t.Context(), key("k"), fleet.Ask{Lease: time.Minute}); !unavailable(err) {
		t.Errorf("Acquire after Close = %v; want unavailable", err)
	}
	if _, err := tier.Watch("ns", r); !unavailable(err) {
		t.Errorf("Watch after Close = %v; want unavailable", err)
	}
	eventually(t, "the connections to end", func() bool {
		return !strings.Contains(s.Text("CLIENT", "LIST"), "name=weir ")
	})
}
