package weirredis_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/adapter/weirredis/internal/redistest"
	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/fleettest"
)

// deadline is the deadline of the suite's instances. A machine that runs all tests at
// once cannot meet the default.
const deadline = slow * 500 * time.Millisecond

// instance opens a Tier like another process.
func instance(t *testing.T, change func(*weirredis.Options)) *weirredis.Tier {
	t.Helper()
	o := weirredis.Options{DialTimeout: 5 * time.Second, Breaker: fleet.BreakerOptions{Deadline: deadline}}
	change(&o)
	tier, err := weirredis.New(t.Context(), o)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	t.Cleanup(func() { _ = tier.Close(context.Background()) })
	return tier
}

// A single is one server with a proxy for each instance.
type single struct {
	s       *redistest.Server
	mu      sync.Mutex
	proxies map[fleet.Tier]*proxy // guarded by mu
}

func (e *single) instance(t *testing.T) fleet.Tier {
	p := newProxy(t, e.s.Addr)
	tier := instance(t, func(o *weirredis.Options) { o.Addresses = []string{p.addr()} })
	e.mu.Lock()
	defer e.mu.Unlock()
	e.proxies[tier] = p
	return tier
}

func (e *single) proxy(t fleet.Tier) *proxy {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.proxies[t]
}

func (e *single) commands() (n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.proxies {
		n += p.commands.Load()
	}
	return n
}

func runSingle(t *testing.T, engine, path string) {
	s := redistest.Start(t, path)
	fleettest.Run(t, func(t *testing.T) fleettest.Fixture {
		e := &single{s: s, proxies: make(map[fleet.Tier]*proxy)}
		return fleettest.Fixture{
			Instance: func() fleet.Tier { return e.instance(t) },
			Hang:     s.Pause, Unhang: s.Resume, Stop: s.Kill, Start: s.Restart,
			CutOff:    func(t fleet.Tier) { e.proxy(t).cutOff() },
			Mend:      func(t fleet.Tier) { e.proxy(t).mend() },
			Deafen:    func(t fleet.Tier) { e.proxy(t).deaf.Store(true) },
			Restore:   func(lost func()) { restore(t, []*redistest.Server{s}, lost) },
			StepClock: func(d time.Duration) { stepClock(t, []*redistest.Server{s}, d) },
			Foreign:   func(k fleet.Key) { foreign(nil, k, func(c ...string) { s.Do(c...) }) },
			Evict:     func() { evict([]*redistest.Server{s}) },
			Commands:  e.commands,
			Deadline:  deadline, Slack: deadline, Lease: slow * time.Second, Recovery: patience,
			Must: rowsBut("MasterFailsOver", "ClientClockWrong", "FailoverLosesWrites"), Report: report(t, engine),
		}
	})
}

// rowsBut returns the suite's rows without those that cannot run here.
func rowsBut(not ...string) (rows []string) {
	for _, r := range fleettest.Rows() {
		if !slices.Contains(not, r) {
			rows = append(rows, r)
		}
	}
	return rows
}

func report(t *testing.T, engine string) func(fleettest.Measured) {
	return func(m fleettest.Measured) {
		note(engine, m)
		if m.NotRun == "" {
			t.Logf("%d instances, %d of %d loads, %v of %v, %d commands", m.Instances, m.Loads, m.MostLoads, m.Longest, m.Limit, m.Commands)
		}
	}
}

func TestFleetOnRedis(t *testing.T) { runSingle(t, "one", redistest.Redis(t)) }

func TestFleetOnValkey(t *testing.T) {
	path := redistest.Valkey()
	if path == "" {
		t.Skip("no valkey-server, which is not available everywhere")
	}
	runSingle(t, "valkey", path)
}

func TestFleetOnACluster(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Redis(t), 3, 3, 15*time.Second)
	fleettest.Run(t, func(t *testing.T) fleettest.Fixture {
		return fleettest.Fixture{
			Instance: func() fleet.Tier { return instance(t, inCluster(c)) },
			Hang:     func() { each(c.All(), (*redistest.Server).Pause) },
			Unhang:   func() { each(c.All(), (*redistest.Server).Resume) },
			Stop:     func() { each(c.All(), (*redistest.Server).Kill) },
			Start:    func() { each(c.All(), (*redistest.Server).Restart); c.AwaitOK() },
			Failover: c.Failover,
			FailoverLosing: func(lost func()) {
				for i, r := range c.Replicas { // disconnected from their masters
					r.Do("CONFIG", "SET", "masterauth", "none-of-its")
					c.Masters[i].Do("CLIENT", "KILL", "TYPE", "replica")
				}
				lost()
				were := append([]*redistest.Server{}, c.Replicas...)
				c.Failover()
				each(were, func(s *redistest.Server) { s.Do("CONFIG", "SET", "masterauth", "") })
			},
			Restore:   func(lost func()) { restore(t, c.Masters, lost) },
			StepClock: func(d time.Duration) { stepClock(t, c.Masters, d) },
			Evict:     func() { evict(c.Masters) },
			Deadline:  deadline, Slack: deadline, Lease: slow * time.Second, Recovery: patience,
			Must:   rowsBut("WakeUpLost", "InstanceCutOff", "ClientClockWrong", "WriteDuringAPartition", "ForeignValue"),
			Report: report(t, "cluster"),
		}
	})
}

func each(all []*redistest.Server, fn func(*redistest.Server)) {
	for _, s := range all {
		fn(s)
	}
}
