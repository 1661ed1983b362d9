package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/lab/fleetlab"
)

// A driver sends an open loop to a fleet, changes the source at the same time, and
// checks every answer.
type driver struct {
	fleet  *fleetOf
	check  *fleetlab.Checker
	client *http.Client
	rate   int           // requests per second
	every  time.Duration // between two changes

	mu      sync.Mutex
	keys    []string  // guarded by mu; most requested first
	wanted  ranks     // guarded by mu; how often each of keys is requested
	replies []reply   // guarded by mu
	from    []string  // guarded by mu; the instance of each reply
	sent    time.Time // written before the first request
	working sync.WaitGroup
}

func newDriver(f *fleetOf, bounds fleetlab.Bounds, rate int, every time.Duration) *driver {
	d := &driver{fleet: f, check: fleetlab.NewChecker(bounds), rate: rate, every: every}
	d.client = &http.Client{Timeout: patience, Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}
	for i := range 40 {
		d.keys = append(d.keys, fmt.Sprintf("key-%d", i))
	}
	d.wanted = newRanks(len(d.keys), 1)
	return d
}

// want appends a key to those that the loop requests.
func (d *driver) want(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.keys = append(d.keys, key)
	d.wanted = newRanks(len(d.keys), 1)
}

// draw returns a key.
func (d *driver) draw(random *rand.Rand) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.keys[d.wanted.draw(random)]
}

// run sends requests at the rate until ctx ends, and waits for their responses.
func (d *driver) run(ctx context.Context) {
	d.sent = time.Now()
	d.working.Go(func() { d.change(ctx) })
	random := rand.New(rand.NewPCG(1, 2))
	gap := time.Second / time.Duration(d.rate)
	for n := 0; ; n++ {
		due := d.sent.Add(time.Duration(n) * gap)
		if !rest(ctx, time.Until(due)) {
			break
		}
		key := d.draw(random)
		d.working.Go(func() { d.get(context.WithoutCancel(ctx), key, due) })
	}
	d.working.Wait()
	d.client.CloseIdleConnections()
}

// get requests a key that was due at due, and checks the answer.
func (d *driver) get(ctx context.Context, key string, due time.Time) {
	sent := time.Now() // later than due if this process is late
	r := ask(ctx, d.client, d.fleet.front+"/get/"+key, d.sent, due)
	var a fleetlab.Answer
	if r.err == nil {
		if r.err = json.Unmarshal([]byte(r.body), &a); r.err == nil {
			d.check.Check(key, a, sent)
		}
	}
	if r.err != nil {
		a.Instance, _, _ = strings.Cut(r.body, ": ")
	}
	r.body = ""
	d.mu.Lock()
	defer d.mu.Unlock()
	d.replies, d.from = append(d.replies, r), append(d.from, a.Instance)
}

// burst requests a key many times at once and waits for the responses.
func (d *driver) burst(ctx context.Context, key string, n int) {
	var all sync.WaitGroup
	due := time.Now()
	for range n {
		all.Go(func() { d.get(ctx, key, due) })
	}
	all.Wait()
}

// change periodically changes a key and invalidates it in the fleet, until ctx ends.
func (d *driver) change(ctx context.Context) {
	random := rand.New(rand.NewPCG(3, 4))
	for rest(ctx, d.every) {
		key := d.draw(random)
		d.working.Go(func() { d.changeOne(context.WithoutCancel(ctx), key) }) // a late change must not delay the next one
	}
}

// invalidateTime bounds an invalidation: nginx may have sent it to a stopped
// instance.
const invalidateTime = time.Second

// changeOne changes a key at the source and then invalidates it in the fleet. It
// reports whether that was acknowledged.
func (d *driver) changeOne(ctx context.Context, key string) bool {
	changed := d.check.Changing(key)
	if _, err := d.fleet.order(ctx, "/change/"+key); err != nil {
		return false // it may still have been applied
	}
	changed()
	ctx, cancel := context.WithTimeout(ctx, invalidateTime)
	defer cancel()
	acknowledged := d.check.Invalidating(key)
	if _, err := post(ctx, d.fleet.front+"/invalidate/"+key); err != nil {
		return false
	}
	acknowledged()
	return true
}

// but returns the replies of all instances except the named one.
func (d *driver) but(instance string) []reply {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []reply
	for i, r := range d.replies {
		if d.from[i] != instance {
			all = append(all, r)
		}
	}
	return all
}
