package fleettest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
)

// A source is the origin of loads: each load takes a while, and is counted.
type source struct {
	takes time.Duration
	fail  atomic.Bool
	loads atomic.Int64
}

var errSource = errors.New("the source is down")

func (src *source) load() (string, error) {
	n := src.loads.Add(1)
	time.Sleep(src.takes)
	if src.fail.Load() {
		return "", errSource
	}
	return fmt.Sprint("load ", n), nil
}

// A node is one instance of a service: it follows the protocol, but has no memory.
type node struct {
	s      *suite
	tier   fleet.Tier
	m      *fleetclient.Client
	resets atomic.Int64
}

// nodes returns n instances that watch the subtest's namespace.
func (s *suite) nodes(n int) []*node {
	all := make([]*node, n)
	for i := range all {
		all[i] = s.node(s.f.Instance())
	}
	return all
}

func (s *suite) node(t fleet.Tier) *node {
	s.Helper()
	n := &node{s: s, tier: t}
	var err error
	n.m, err = fleetclient.New(fleetclient.Options{
		Tier: t, Namespace: s.namespace, Lease: s.f.Lease, Keep: time.Hour, Codec: "test",
		Hooks: fleetclient.Hooks{Reset: func() { n.resets.Add(1) }},
	})
	if err != nil {
		s.Fatalf("fleetclient.New = %v; want nil", err)
	}
	s.Cleanup(func() { _ = n.m.Close(context.Background()) })
	return n
}

// value returns the Outcome with which a node stores text.
func value(text string, seq uint64) fleet.Outcome {
	v := fleet.Value{TTL: time.Minute, Codec: "test", Data: []byte(text), TagSeq: seq}
	data, err := v.AppendBinary(nil)
	if err != nil {
		panic(err) // its durations are not negative
	}
	return fleet.Outcome{Entry: &fleet.Entry{Data: data, Fresh: time.Minute, Keep: time.Hour}}
}

// get does what a Guard does for the key "k": it loads under a lease, waits for the
// holder of the lease, or, without the engine, loads alone.
func (n *node) get(src *source) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sub := n.m.Subscribe("k")
	defer sub.Close()
	var joined uint64
	for {
		a, err := sub.Ask(ctx, fleet.Ask{Joined: joined})
		switch {
		case errors.Is(err, fleet.ErrUnavailable):
			return src.load()
		case err != nil:
			return "", err
		case a.Grant == fleet.GrantFresh:
			return string(a.Value.Data), nil
		case a.Grant == fleet.GrantCooling:
			return "", &fleet.RemoteError{Failure: a.Failure}
		case a.Grant == fleet.GrantLease:
			return n.load(sub.Hold(a.Fence, nil), src)
		}
		joined = a.Fence
		if err := sub.Await(ctx, a.Remaining); err != nil {
			return "", err
		}
	}
}

func (n *node) load(l *fleetclient.Lease, src *source) (string, error) {
	seq := n.m.TagSeq()
	text, err := src.load()
	o := failed(fmt.Sprint(err), 10*n.s.f.Lease, 10*n.s.f.Lease)
	if err == nil {
		o = value(text, seq)
	}
	_, _ = l.Settle(o) // if Settle is refused or fails, this caller still gets the value
	return text, err
}

// all makes each node get the key once, and measures.
func (m *Measured) all(nodes []*node, src *source) (texts []string, errs []error) {
	texts, errs = make([]string, len(nodes)), make([]error, len(nodes))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			start := time.Now()
			text, err := n.get(src)
			mu.Lock()
			defer mu.Unlock()
			texts[i], errs[i] = text, err
			m.Longest = max(m.Longest, time.Since(start))
		})
	}
	wg.Wait()
	m.Instances, m.Loads = len(nodes), int(src.loads.Load())
	return texts, errs
}

// same fails unless all instances got want, and no error.
func (s *suite) same(texts []string, errs []error, want string) {
	s.Helper()
	for i, text := range texts {
		if text != want || errs[i] != nil {
			s.Errorf("instance %d has %q, %v; want %q, nil", i, text, errs[i], want)
		}
	}
}
