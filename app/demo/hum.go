package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// The light load: a few clients that together send humRate requests per second on average,
// alternating by humSwing above and below, so that there is something to see.
const (
	humClients = 8
	humRate    = 60
	humSwing   = 0.7
	humPeriod  = 40 * time.Second
)

// humWhile keeps some of the clients sending requests while f runs, or until ctx ends.
func (c *clients) humWhile(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var humming sync.WaitGroup
	start := time.Now()
	few := min(humClients, len(c.all))
	for number := range few {
		humming.Go(func() { c.hum(ctx, number, few, start) })
	}
	err := f()
	cancel(errors.New("the demo is over"))
	humming.Wait()
	return errors.Join(err, c.mistakes())
}

// hum sends requests with waits in between, as one of a few clients. It continues after a
// failed request; a Board counts those.
func (c *clients) hum(ctx context.Context, number, few int, start time.Time) {
	for ctx.Err() == nil {
		_ = c.ask(ctx, number)
		pause := time.Duration(float64(few) / humAt(time.Since(start)) * float64(time.Second))
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)): // otherwise all would send at the same time
		}
	}
}

// humAt returns the rate of the light load, in requests per second, at a time after its
// start.
func humAt(past time.Duration) float64 {
	return humRate * (1 + humSwing*math.Sin(2*math.Pi*past.Seconds()/humPeriod.Seconds()))
}

// mistakes reports responses that did not belong to their key.
func (c *clients) mistakes() error {
	if n := c.wrong.Load(); n > 0 {
		return fmt.Errorf("%d responses belonged to another key", n)
	}
	return nil
}
