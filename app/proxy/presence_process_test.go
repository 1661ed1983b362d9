package proxy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-go/weir/console"
	"github.com/weir-go/weir/fleet"
)

// rosterOf returns what a proxy's console shows of the fleet.
func rosterOf(t *testing.T, p *process) (f console.Fleet) {
	t.Helper()
	a := get(p.admin + "/console/api/fleet")
	if err := json.Unmarshal([]byte(a.body), &f); err != nil || a.status != 200 {
		t.Fatalf("/console/api/fleet is %+v, %v", a, err)
	}
	return f
}

// sees waits until p shows exactly these processes, and returns them in this order.
func sees(t *testing.T, p *process, all ...*process) (f console.Fleet, found []fleet.Instance) {
	t.Helper()
	until(t, fmt.Sprintf("%d instances", len(all)), func() bool {
		f, found = rosterOf(t, p), nil
		for _, q := range all {
			i := slices.IndexFunc(f.Instances, func(i fleet.Instance) bool { return strings.HasPrefix(i.Address, q.admin+"/") })
			if i >= 0 {
				found = append(found, f.Instances[i])
			}
		}
		return len(found) == len(all) && len(f.Instances) == len(all)
	})
	return f, found
}

// Each proxy of a fleet shows all of them, with their counts. One that stops disappears
// at once, and one that was killed disappears soon.
func TestConsolesKnowTheFleet(t *testing.T) {
	t.Parallel() // it mostly waits
	program, addr := redisServer(t), free(t)
	kill := startRedis(t, program, addr, "secret-of-redis")
	origin, _ := versions(t)
	all := fleetOf(t, 3, origin.URL, addr, "secret-of-redis")
	for range 4 {
		ask(all[0].listen[0]+"/cold", "")
	}
	ids := map[string]bool{}
	for n, p := range all {
		f, found := sees(t, p, all...)
		if f.Self == "" || f.Self != found[n].ID || f.Error != "" {
			t.Errorf("proxy %d shows %+v; want it to mark itself", n, f)
		}
		ids[f.Self] = true
		for m, i := range found {
			if !strings.HasSuffix(i.Name, fmt.Sprint(":", all[m].cmd.Process.Pid)) || i.Started.IsZero() || i.Seen.Before(i.Started.Add(-patience)) {
				t.Errorf("proxy %d shows %+v; want the process %d, and when it was seen", n, i, all[m].cmd.Process.Pid)
			}
		}
	}
	if len(ids) != 3 {
		t.Errorf("the proxies are %v; want 3 IDs", ids)
	}
	until(t, "the counts of the first at the last", func() bool {
		_, found := sees(t, all[2], all...)
		c := found[0].Counts
		return c["requests"] == 4 && c["calls"] == 1 && c["avoided"] == 3 && c["refused"] == 0 && found[1].Counts["requests"] == 0
	})

	all[1].signal(syscall.SIGTERM)
	all[1].ends(0)
	gone := time.Now()
	sees(t, all[0], all[0], all[2])
	// An instance that is not withdrawn disappears three of these intervals after it
	// was last announced.
	if took := time.Since(gone); took > 2*fleet.DefaultAnnounceEvery {
		t.Errorf("the proxy that stopped disappeared after %v; want at once", took)
	}
	all[2].signal(syscall.SIGKILL)
	<-all[2].exited
	sees(t, all[0], all[0])

	kill()
	until(t, "the console to report that the fleet is unreachable", func() bool { return rosterOf(t, all[0]).Error != "" })
	if f := rosterOf(t, all[0]); f.Self == "" || f.Instances == nil || strings.Contains(f.Error, "secret-of-redis") {
		t.Errorf("without Redis it shows %+v; want an error, and no secret", f)
	}
	startRedis(t, program, addr, "secret-of-redis")
	sees(t, all[0], all[0])
	all[0].signal(syscall.SIGTERM)
	all[0].ends(0)
}
