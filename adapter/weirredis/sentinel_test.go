package weirredis_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
)

// Behind Sentinels the master is found, tracked, and followed when it moves.
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
	eventually(t, "the new master to answer", func() bool {
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
