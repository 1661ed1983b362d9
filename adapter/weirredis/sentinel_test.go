package weirredis_test

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
)

// With Sentinels the master is found and tracked, also after a failover.
func TestSentinel(t *testing.T) {
	path := redistest.Redis(t)
	master := redistest.Start(t, path)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := redistest.Start(t, path, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	sentinel := redistest.StartSentinel(t, path, "main", master, 1)
	tier := open(t, sentinel, func(o *weirredis.Options) { o.Sentinel = &weirredis.Sentinel{MasterSet: "main"} })
	everything(t, tier)
	told := watch(t, tier, "ns")
	if n := len(trackers(master)); n != 1 {
		t.Errorf("%d connections track the master; want one", n)
	}
	fence := write(t, tier, key("k"), fleet.Write{Entry: entry("v")})
	eventually(t, "the replica to catch up", func() bool { return master.Int("WAIT", "1", "100") == 1 })
	master.Kill()
	told.await(t, "lost")
	told.await(t, "reset")
	var next uint64
	eventually(t, "the new master to respond", func() bool {
		var err error
		next, err = tier.Write(t.Context(), key("k"), fleet.Write{})
		return err == nil
	})
	if next <= fence {
		t.Errorf("fence = %d after the failover; want more than %d", next, fence)
	}
	fence = write(t, tier, key("k"), fleet.Write{})
	told.await(t, fmt.Sprintf("changed %q %d true", "k", fence))
	if n := len(trackers(replica)); n != 1 {
		t.Errorf("%d connections track the new master; want one", n)
	}
}

// A watchedPair is a master and its replica, with a Sentinel.
type watchedPair struct {
	master, replica, sentinel *redistest.Server
	spent                     bool // it has failed over
}

func startWatchedPair(t *testing.T) *watchedPair {
	t.Helper()
	path := redistest.Redis(t)
	w := &watchedPair{master: redistest.Start(t, path)}
	host, port, _ := net.SplitHostPort(w.master.Addr)
	w.replica = redistest.Start(t, path, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	w.sentinel = redistest.StartSentinel(t, path, "main", w.master, 1)
	return w
}

// failover kills the master, and waits until the Sentinel names the replica as the
// master.
func (w *watchedPair) failover(t *testing.T) {
	t.Helper()
	w.spent = true
	w.master.Kill()
	_, port, _ := net.SplitHostPort(w.replica.Addr)
	eventually(t, "the Sentinel to name the replica", func() bool {
		m := w.sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")
		addr, err := m.AsStrSlice()
		return err == nil && len(addr) == 2 && addr[1] == port
	})
}

func TestFleetBehindSentinels(t *testing.T) {
	var w *watchedPair
	all := t // a pair serves several rows
	fleettest.Run(t, func(t *testing.T) fleettest.Fixture {
		if w == nil || w.spent {
			w = startWatchedPair(all)
		}
		w := w
		return fleettest.Fixture{
			Instance: func() fleet.Tier {
				return instance(t, func(o *weirredis.Options) {
					o.Addresses, o.Sentinel = []string{w.sentinel.Addr}, &weirredis.Sentinel{MasterSet: "main"}
				})
			},
			Failover: func() { w.failover(t) },
			FailoverLosing: func(lost func()) {
				w.replica.Do("CONFIG", "SET", "masterauth", "none-of-its")
				w.master.Do("CLIENT", "KILL", "TYPE", "replica")
				lost()
				w.failover(t)
			},
			StepClock: func(d time.Duration) { stepClock(t, []*redistest.Server{w.master}, d) },
			Evict:     func() { evict([]*redistest.Server{w.master}) },
			Deadline:  deadline, Slack: deadline, Lease: slow * time.Second, Recovery: patience,
			Must:   []string{"MasterFailsOver", "FailoverLosesWrites", "EngineClockBack", "EngineClockAhead", "Eviction"},
			Report: report(t, "sentinel"),
		}
	})
}
