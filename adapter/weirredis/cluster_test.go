package weirredis_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

func inCluster(c *redistest.Cluster) func(*weirredis.Options) {
	return func(o *weirredis.Options) {
		o.Cluster = true
		o.Addresses = nil
		for _, s := range c.All() {
			o.Addresses = append(o.Addresses, s.Addr)
		}
	}
}

// names returns n names for each server, of keys that it stores.
func names(t *testing.T, tier fleet.Tier, servers []*redistest.Server, n int) map[*redistest.Server][]string {
	t.Helper()
	by := make(map[*redistest.Server][]string)
	for i := 0; i < 200; i++ {
		name := fmt.Sprint("name ", i)
		write(t, tier, key(name), fleet.Write{Entry: entry("v")})
		for _, s := range servers {
			if len(by[s]) < n && s.Int("CLUSTER", "COUNTKEYSINSLOT", slotOf(s, name)) > 0 {
				by[s] = append(by[s], name)
			}
		}
	}
	for _, s := range servers {
		if len(by[s]) < n {
			t.Fatalf("%d of 200 names on %s; want %d", len(by[s]), s.Addr, n)
		}
	}
	return by
}

func slotOf(s *redistest.Server, name string) string {
	return strconv.FormatInt(s.Int("CLUSTER", "KEYSLOT", "{ns/"+strings.ReplaceAll(name, " ", "%20")+"}"), 10)
}

// Each master is tracked once, and replicas are not. A failover is reported, and
// pushes come from the new master.
func TestClusterFailover(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Redis(t), 3, 1, time.Second)
	a, b := open(t, c.Masters[0], inCluster(c)), open(t, c.Masters[0], inCluster(c))
	told := watch(t, b, "ns")
	for _, s := range c.Masters {
		if n := len(trackers(s)); n != 2 {
			t.Errorf("%d connections track master %s; want one per Tier", n, s.Addr)
		}
	}
	if n := len(trackers(c.Replicas[0])); n != 0 {
		t.Errorf("%d connections track a replica; want none", n)
	}
	by := names(t, a, c.Masters, 2)
	for _, s := range c.Masters {
		fence := write(t, a, key(by[s][0]), fleet.Write{})
		told.await(t, fmt.Sprintf("changed %q %d true", by[s][0], fence))
	}
	everythingOnce(t, a, "before")

	name := by[c.Masters[0]][1]
	fence := write(t, a, key(name), fleet.Write{Entry: entry("kept")})
	told.await(t, fmt.Sprintf("changed %q %d false", name, fence))
	eventually(t, "the replica to catch up", func() bool {
		return c.Masters[0].Int("WAIT", "1", "100") == 1
	})
	c.Masters[0].Kill()
	told.await(t, "lost")
	told.await(t, "reset")
	eventually(t, "the new master to respond", func() bool {
		ans, err := a.Acquire(t.Context(), key(name), fleet.Ask{Lease: time.Minute})
		return err == nil && ans.Grant == fleet.GrantFresh && ans.Entry.Fence == fence
	})
	again := write(t, a, key(name), fleet.Write{})
	if again <= fence {
		t.Errorf("fence = %d after the failover; want more than %d", again, fence)
	}
	told.await(t, fmt.Sprintf("changed %q %d true", name, again))

	// The old master comes back as a replica, which is not tracked. The new master is
	// tracked, and gets the scripts.
	c.Masters[0].Restart()
	c.AwaitOK()
	everythingOnce(t, b, "after")
	// It may have been treated as a master until it learned that it is a replica.
	<-time.After(time.Second) // enough for five reads of the masters, if the machine is not busy
	eventually(t, "no Tier to track the old master, now a replica", func() bool { return len(trackers(c.Masters[0])) == 0 })
	eventually(t, "each Tier to track the new master", func() bool { return len(trackers(c.Replicas[0])) == 2 })
}

func everythingOnce(t *testing.T, tier *weirredis.Tier, round string) {
	t.Helper()
	for i := range 20 { // on several slots
		k := key(fmt.Sprint(round, i))
		fence := granted(t, tier, k)
		settle(t, tier, k, fence, fleet.Outcome{Entry: entry("v")}, true)
		if _, err := tier.InvalidateTags(t.Context(), fmt.Sprint(i), []string{"a", "b"}, time.Hour); err != nil {
			t.Errorf("InvalidateTags = %v", err)
		}
		if s, err := tier.Tags(t.Context(), fmt.Sprint(i), []string{"a"}); err != nil || s.Each[0] == 0 {
			t.Errorf("Tags = %+v, %v; want a number", s, err)
		}
		if got, err := tier.Take(t.Context(), k, fleet.Rate{Permits: 1, Per: time.Hour, Burst: 3}, 5); err != nil || got.Permits != 3 {
			t.Errorf("Take = %+v, %v; want 3", got, err)
		}
	}
}

// A node that is added and gets slots during operation is tracked.
func TestClusterGrows(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Redis(t), 2, 0, 5*time.Second)
	tier := open(t, c.Masters[0], inCluster(c))
	told := watch(t, tier, "ns")
	by := names(t, tier, c.Masters, 1)
	from, name := c.Masters[0], by[c.Masters[0]][0]
	slot := slotOf(from, name)

	to := c.Add(redistest.Redis(t), 5*time.Second)
	move(t, c, from, to, slot)
	told.await(t, "reset")
	if n := len(trackers(to)); n != 1 {
		t.Errorf("%d connections track the new master; want one", n)
	}
	got := acquire(t, tier, key(name), fleet.Ask{})
	if got.Grant != fleet.GrantFresh {
		t.Errorf("Acquire = %v after the slot has moved; want fresh", got.Grant)
	}
	next := write(t, tier, key(name), fleet.Write{})
	told.await(t, fmt.Sprintf("changed %q %d true", name, next))
	if next <= got.Entry.Fence {
		t.Errorf("fence = %d; want more than %d", next, got.Entry.Fence)
	}
}

// move moves a slot with its keys, as the engines' manuals describe. In the middle,
// keys of the slot are on both servers.
func move(t *testing.T, c *redistest.Cluster, from, to *redistest.Server, slot string) {
	t.Helper()
	source, target := from.Text("CLUSTER", "MYID"), to.Text("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	host, port, _ := strings.Cut(to.Addr, ":")
	for _, k := range from.Texts("CLUSTER", "GETKEYSINSLOT", slot, "1000") {
		from.Do("MIGRATE", host, port, k, "0", "5000")
	}
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", target)
	for _, s := range c.Masters {
		s.Do("CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}

// A Tier without Options.Cluster reports that the server is in a Cluster.
func TestClusterUnexpected(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Redis(t), 2, 0, 5*time.Second)
	tier := open(t, c.Masters[0], func(o *weirredis.Options) { o.Breaker.Failures = 1 << 20 })
	hints := 0
	for i := range 20 {
		_, err := tier.Write(t.Context(), key(fmt.Sprint(i)), fleet.Write{})
		if err != nil && unavailable(err) && strings.Contains(err.Error(), "Options.Cluster is not set") {
			hints++
		}
	}
	if hints == 0 {
		t.Error("20 writes to one of two masters, and no hint that Options.Cluster is not set")
	}
	s := redistest.Start(t, redistest.Redis(t))
	tier, err := weirredis.New(t.Context(), weirredis.Options{Addresses: []string{s.Addr}, Cluster: true})
	if err == nil {
		_ = tier.Close(context.Background())
		t.Error("New with Cluster on a single server = nil; want an error")
	}
}
