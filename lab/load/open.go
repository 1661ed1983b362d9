package load

import (
	"context"
	"math"
	"sync"
	"time"
)

// A pacer waits for a point in time. It is more exact than time.Sleep, which on Linux
// can wake an idle program up to a millisecond late; that would be added to every
// latency.
type pacer interface {
	// Wait returns at t or when the run has ended.
	Wait(t time.Time)
	Close() error
}

// A due is a scheduled request.
type due struct {
	number int64
	at     time.Time
}

// open gives each request to a free client when it is due. It adds clients while
// there are fewer than MaxInFlight; beyond that a request waits for one.
func (p *phase) open(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	work := make(chan due) // unbuffered: a send that succeeds has found a free client
	defer close(work)

	running := 0
	var fullUntil time.Time // all clients were busy until this time
	var late int64
	for n := int64(0); n < p.requests; n++ {
		at := p.start.Add(time.Duration(math.Round(float64(n) / p.run.spec.Rate * float64(time.Second))))
		if !at.Before(p.end) {
			break
		}
		p.run.pace.Wait(at)
		if ctx.Err() != nil {
			break
		}
		d := due{n, at}
		select {
		case work <- d:
		default:
			if running < p.run.spec.MaxInFlight {
				p.add(ctx, &all, running, d, work)
				running++
				break
			}
			work <- d // the clients end only after this loop
			fullUntil = time.Now()
		}
		if at.Before(fullUntil) {
			late++
		}
	}
	p.tallies[0].late(late)
}

// add starts the i-th client, with its first request.
func (p *phase) add(ctx context.Context, all *sync.WaitGroup, i int, first due, work <-chan due) {
	c := p.run.client(i)
	all.Go(func() {
		for d, ok := first, true; ok; d, ok = <-work {
			p.request(ctx, c, i, d.number, d.at, max(0, time.Since(d.at)))
		}
	})
}
