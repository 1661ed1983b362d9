package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	closed "github.com/weir-go/weir/app/load"
	"github.com/weir-go/weir/lab/internal/cpu"
)

// Main reads a [Spec] from in, runs it and writes the [Result] to out. It ends early,
// with an error, at the end of ctx, SIGTERM or SIGINT.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	var s Spec
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return fmt.Errorf("load: read the spec: %w", err)
	}
	r, err := Run(ctx, s)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return fmt.Errorf("load: write the result: %w", err)
	}
	return nil
}

// Run sends the load that s describes and returns its result after the last response.
// It returns all faults of s at once, each as a [*SpecError]. If ctx ends first, Run
// drops the requests in flight and returns the cause. Failed requests are not an
// error; the result counts them.
func Run(ctx context.Context, s Spec) (Result, error) {
	return runOver(ctx, s, new(net.Dialer).DialContext, newPacer)
}

// runOver is Run over other connections and another clock, for tests.
func runOver(ctx context.Context, s Spec, dial dialFunc, pace func(context.Context) (pacer, error)) (Result, error) {
	if err := s.validate(); err != nil {
		return Result{}, err
	}
	r := &run{spec: s.withDefaults(), dial: dial, expect: []byte(s.ExpectBody), pick: newPicker(s)}
	var err error
	if r.targets, r.hosts, err = targets(r.spec); err != nil {
		return Result{}, err
	}
	if r.pace, err = pace(ctx); err != nil {
		return Result{}, fmt.Errorf("load: create a timer: %w", err)
	}
	defer r.pace.Close()
	defer func() {
		for _, c := range r.clients {
			c.close()
		}
	}()
	if s.Warmup > 0 || s.WarmupRequests > 0 {
		r.phase(ctx, s.WarmupRequests, s.Warmup)
	}
	if s.Connected {
		if err := r.connect(ctx); err != nil {
			return Result{}, fmt.Errorf("load: open the connections: %w", err)
		}
	}
	before, err := cpu.Own()
	if err != nil {
		return Result{}, fmt.Errorf("load: read the CPU time: %w", err)
	}
	res := r.phase(ctx, s.Requests, s.Duration)
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	after, err := cpu.Own()
	res.CPUTime = after - before
	return res, err
}

// A run is one run of a Spec.
type run struct {
	spec    Spec // with defaults applied
	dial    dialFunc
	expect  []byte
	pick    *picker
	targets []target
	hosts   []host
	pace    pacer
	clients []*client // only Run's goroutine adds to it; each is used by one goroutine of a phase
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// client returns the i-th client. Clients keep their connections after the warm-up.
func (r *run) client(i int) *client {
	for len(r.clients) <= i {
		r.clients = append(r.clients, &client{run: r, links: make([]link, len(r.hosts))})
	}
	return r.clients[i]
}

// connect opens the connections of all clients that have none yet.
func (r *run) connect(ctx context.Context) error {
	for i := range r.spec.Clients {
		c := r.client(i)
		for h := range c.links {
			if c.links[h].conn != nil {
				continue
			}
			if err := c.connect(ctx, &c.links[h], h, time.Now().Add(r.spec.Timeout)); err != nil {
				return err
			}
		}
	}
	return nil
}

// shards is the number of tallies that the clients share. One tally per client would
// cost 400 kB each.
const shards = 8

// A phase is the warm-up or the load that counts.
type phase struct {
	run      *run
	start    time.Time
	requests int64 // 0: no bound
	end      time.Time
	first    atomic.Pointer[string]
	tallies  [shards]*tally
}

// phase sends requests until there are enough or time is up, and waits for the
// responses.
func (r *run) phase(ctx context.Context, requests int, d time.Duration) Result {
	p := &phase{run: r, start: time.Now(), requests: int64(requests)}
	p.end = p.start.Add(d)
	if d == 0 {
		p.end = p.start.Add(maxTime)
	}
	if requests == 0 {
		p.requests = 1 << 62
	}
	for i := range p.tallies {
		p.tallies[i] = newTally(time.Duration(r.spec.EveryMS) * time.Millisecond)
	}
	if r.spec.Mode == Open {
		p.open(ctx)
	} else {
		p.closed(ctx)
	}
	res := Result{EveryMS: r.spec.EveryMS}
	for _, t := range p.tallies {
		res.Merge(t.result())
	}
	res.Elapsed = time.Since(p.start)
	if text := p.first.Load(); text != nil {
		res.FirstFailure = *text
	}
	return res
}

// closed makes each client send its next request when the last one is answered.
func (p *phase) closed(ctx context.Context) {
	for i := range p.run.spec.Clients {
		p.run.client(i) // all of them before the loop, because only one goroutine may change r.clients
	}
	closed.Closed(ctx, p.run.spec.Clients, p.end, p.requests, func(i int, n int64, now time.Time) {
		p.request(ctx, p.run.clients[i], i, n, now, 0)
	})
}

// request sends request n and counts it, with a latency that begins at due. late is
// how long after due it is sent.
func (p *phase) request(ctx context.Context, c *client, i int, n int64, due time.Time, late time.Duration) {
	t := &p.run.targets[p.run.pick.pick(n)]
	status, err := c.send(ctx, t)
	now := time.Now()
	if err != nil && p.first.Load() == nil {
		text := err.Error()
		p.first.CompareAndSwap(nil, &text)
	}
	p.tallies[i%shards].count(status, err == nil, now.Sub(due), now.Sub(p.start), late)
	c.tidy()
}
