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

// The gentle load: a few clients that together send humRate requests per second
// in the mean, by humSwing more and less in turn, so that there is something to
// see.
const (
	humClients = 8
	humRate    = 60
	humSwing   = 0.7
	humPeriod  = 40 * time.Second
)

// humWhile keeps some of the clients asking while f runs, or until ctx ends.
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

// hum asks, waits and asks again as one of a few clients. A client without an
// answer asks again; a Board counts it.
func (c *clients) hum(ctx context.Context, number, few int, start time.Time) {
	for ctx.Err() == nil {
		_ = c.ask(ctx, number)
		pause := time.Duration(float64(few) / humAt(time.Since(start)) * float64(time.Second))
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause)): // else all would ask at the same time
		}
	}
}

// humAt is how many requests per second the gentle load has after a while.
func humAt(past time.Duration) float64 {
	return humRate * (1 + humSwing*math.Sin(2*math.Pi*past.Seconds()/humPeriod.Seconds()))
}

// mistakes tells of answers that were not their key's.
func (c *clients) mistakes() error {
	if n := c.wrong.Load(); n > 0 {
		return fmt.Errorf("%d answers were not their key's", n)
	}
	return nil
}
