package scenarios

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/lab/scenario"
)

// What a chaosFault needs in addition to a server.
const (
	aServer  = iota
	aLink    // between the instances and the server
	aCluster // instead of the server: 3 masters with one replica each
)

// A chaosFault is a fault injected into a fleet.
type chaosFault struct {
	name  string
	needs int
	// cuts reports that pushes may not reach any instance.
	cuts bool
	// happens injects the fault and returns when it is over. It can record measured
	// values.
	happens func(ctx context.Context, c *chaos, values map[string]float64) error
}

// chaosFaults are all faults, in the order in which they are injected.
var chaosFaults = []chaosFault{
	{name: "no fault", happens: func(ctx context.Context, c *chaos, values map[string]float64) error {
		return c.inDark(ctx, values, 1)
	}},
	{name: "holder killed", happens: holderKilled},
	{name: "holder stopped", happens: holderStopped},
	{name: "Redis killed", cuts: true, happens: func(ctx context.Context, c *chaos, values map[string]float64) error {
		if err := c.redis.Kill(); err != nil {
			return err
		}
		if err := c.inDark(ctx, values, c.set.Instances); err != nil {
			return err
		}
		return c.redis.Restart(ctx)
	}},
	{name: "Redis restarts empty", cuts: true, happens: func(ctx context.Context, c *chaos, values map[string]float64) error {
		if err := c.redis.Restart(ctx); err != nil {
			return err
		}
		return c.inDark(ctx, values, c.set.Instances)
	}},
	{name: "Redis hangs", cuts: true, happens: func(ctx context.Context, c *chaos, values map[string]float64) error {
		if err := c.redis.Pause(); err != nil {
			return err
		}
		if err := c.inDark(ctx, values, c.set.Instances); err != nil {
			return err
		}
		return c.redis.Continue()
	}},
	{name: "link too slow", needs: aLink, cuts: true, happens: func(ctx context.Context, c *chaos, values map[string]float64) error {
		late := 3 * c.set.Service.Engine.Deadline
		if err := c.link.Delay(late, late/4); err != nil {
			return err
		}
		if err := c.inDark(ctx, values, c.set.Instances); err != nil {
			return err
		}
		return c.link.Heal(ctx)
	}},
	{name: "link resets", needs: aLink, cuts: true, happens: linkResets},
	{name: "master fails over", needs: aCluster, cuts: true, happens: masterFailsOver},
}

// inDark waits until the fault has lasted long enough. During the wait it sends a
// burst, whose key may be loaded at most most times.
func (c *chaos) inDark(ctx context.Context, values map[string]float64, most int) error {
	rest(ctx, c.set.Lasts/3)
	loads, err := c.burst(ctx, "dark", most)
	if err != nil {
		return err
	}
	values[burstInFault] = loads
	rest(ctx, c.set.Lasts*2/3)
	return nil
}

// held sends a burst for a key and returns the instance that loads it, and a function
// that waits for the end of the burst. The load does not end until the key is freed,
// however busy the machine is.
func (c *chaos) held(ctx context.Context, key string) (holder *scenario.Server, wait func(), err error) {
	var burst sync.WaitGroup
	if _, err := c.fleet.order(ctx, "/hold/"+key); err != nil {
		return nil, burst.Wait, err
	}
	burst.Go(func() { c.drive.burst(ctx, key, c.set.Burst) })
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		name, err := c.fleet.order(ctx, "/holder/"+key)
		if err != nil {
			return nil, burst.Wait, err
		}
		if s := c.fleet.named(name); s != nil {
			return s, burst.Wait, nil
		}
		rest(ctx, 2*time.Millisecond)
	}
	return nil, burst.Wait, fmt.Errorf("scenarios: no instance loads %s", key)
}

// holderKilled kills the instance that loads a key while all others wait for it.
func holderKilled(ctx context.Context, c *chaos, values map[string]float64) error {
	holder, wait, err := c.held(ctx, "killed")
	if err != nil {
		return err
	}
	if err := holder.Kill(); err != nil {
		return err
	}
	killed := time.Now()
	if _, err := c.fleet.order(ctx, "/free/killed"); err != nil {
		return err
	}
	wait()
	served := time.Since(killed)
	c.drive.want("killed")
	loads, err := c.loads(ctx, "killed")
	if err != nil {
		return err
	}
	values[burstInFault], values[servedAfterMS] = float64(loads), ms(served)
	c.lab.Check(c.fault.name+": the key is loaded twice", loads == 2, "%d loads", loads)
	c.lab.CheckTime(c.fault.name+": all are served within the lease, a load and 300 ms", served <= chaosLease+chaosWait+300*time.Millisecond, "after %v", served.Round(time.Millisecond))
	rest(ctx, c.set.Lasts)
	return nil
}

// holderStopped stops the loading instance beyond its lease, while others wait for
// the key. During that time the source changes and the fleet gets an invalidation.
// When the instance resumes, its result is too late.
func holderStopped(ctx context.Context, c *chaos, values map[string]float64) error {
	holder, wait, err := c.held(ctx, "stopped")
	if err != nil {
		return err
	}
	// It receives nothing until it resumes, and may then consider the engine down.
	mended := c.drive.check.Cut(holder.Variant)
	defer mended()
	c.stopped = holder.Variant
	if err := holder.Pause(); err != nil {
		return err
	}
	defer holder.Continue() //nolint:errcheck // it has been resumed already
	if _, err := c.fleet.order(ctx, "/free/stopped"); err != nil {
		return err
	}
	rest(ctx, chaosLease+3*chaosWait)
	loads, err := c.loads(ctx, "stopped")
	for limit := time.Now().Add(patience); loads < 2 && err == nil && time.Now().Before(limit); loads, err = c.loads(ctx, "stopped") {
		rest(ctx, 10*time.Millisecond) // on a busy machine the next loader may not have started yet
	}
	if err != nil {
		return err
	}
	values[burstInFault] = float64(loads)
	c.lab.Check(c.fault.name+": two loads overlap", loads == 2, "%d loads", loads)
	for try := 0; !c.drive.changeOne(ctx, "stopped"); try++ { // nginx may choose the stopped instance
		if try == 5 {
			return fmt.Errorf("scenarios: no instance accepts an invalidation")
		}
	}
	c.drive.want("stopped")
	rest(ctx, c.set.Lasts)
	if err := holder.Continue(); err != nil {
		return err
	}
	wait()
	rest(ctx, c.set.Mend)
	return nil
}

// linkResets repeatedly resets the connections to the engine.
func linkResets(ctx context.Context, c *chaos, values map[string]float64) error {
	const period = 250 * time.Millisecond
	over, stop := context.WithTimeout(ctx, c.set.Lasts)
	defer stop()
	failed := make(chan error, 1)
	go func() { // ends with over
		for over.Err() == nil {
			if err := c.link.Reset(); err != nil {
				failed <- err
				return
			}
			rest(over, period/2)
			if err := c.link.Heal(ctx); err != nil {
				failed <- err
				return
			}
			rest(over, period/2)
		}
		failed <- nil
	}()
	// With each new connection memory counts as stale, so an instance can load once
	// more.
	resets := int(c.set.Lasts/period) + 1
	err := c.inDark(ctx, values, c.set.Instances*resets)
	return errors.Join(err, <-failed)
}

// masterFailsOver kills a master of the cluster and waits until a replica has
// replaced it.
func masterFailsOver(ctx context.Context, c *chaos, values map[string]float64) error {
	if err := c.cluster.Nodes[0].Kill(); err != nil {
		return err
	}
	if err := c.inDark(ctx, values, c.set.Instances); err != nil {
		return err
	}
	limit, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for len(c.cluster.Masters(limit)) < 3 {
		if !rest(limit, 50*time.Millisecond) {
			return fmt.Errorf("scenarios: no replica became master: %w", context.Cause(limit))
		}
	}
	return nil
}
