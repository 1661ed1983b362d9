// Package demo shows what Weir does, on this machine: a small HTTP service
// whose every answer costs real work, under the load of clients that do not
// let up, first bare and then with one more level of protection at a time.
//
// Each level has a service, a Guard and connections of its own and starts
// cold; the clients ask for the same keys in the same order. Every answer is
// compared with the right one, which is worked out beforehand.
//
// Clients, service and source run in one process and share its processors, so
// the levels can be compared with each other and not with another machine.
package demo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/app/load"
	"github.com/weir-go/weir/app/report"
)

// closeTimeout bounds how long a level waits at its end for calls at the
// source that ignore their cancellation.
const closeTimeout = 10 * time.Second

// A Config says what to run. All numbers must be positive.
type Config struct {
	Source   source.Source
	Clients  int
	Keys     int
	Duration time.Duration // of each level
	Seed     uint64        // of the order of keys; any number
	// Gateway protects the service from outside, by a gateway before it, in
	// place of a Guard within.
	Gateway  bool
	Progress Progress
}

// A Progress is told of the steps as they begin and end.
type Progress interface {
	// Start begins a step. Until Done, or the next Start, detail may be
	// called from any goroutine and says how far it is.
	Start(step string, detail func() string)
	Done(result string)
}

// A Result is what the levels have measured.
type Result struct {
	Call   time.Duration // mean time of a call at the source while nothing else ran, one for each CPU at once
	Levels []report.Level
}

// Run runs all levels, one after another. When it returns nothing of them is
// left; if ctx ends, that is at once, and the error is the cause.
func Run(ctx context.Context, c Config) (Result, error) {
	right, call, err := prepare(ctx, c)
	if err != nil {
		return Result{}, err
	}
	res := Result{Call: call}
	all := levels()
	if c.Gateway {
		all = gatewayLevels()
	}
	for i, l := range all {
		done, err := c.run(ctx, fmt.Sprintf("level %d of %d, %s", i+1, len(all), l.name), l, right)
		if err != nil {
			return Result{}, err
		}
		res.Levels = append(res.Levels, done)
	}
	return res, nil
}

// prepare calls the source once for each key, and so learns the right answers
// and the price of one.
func prepare(ctx context.Context, c Config) (*references, time.Duration, error) {
	var done, spent atomic.Int64 // atomics, since the progress reads one and all calls add to both
	c.Progress.Start("working out the right answers", func() string {
		return fmt.Sprintf("%d of %d", done.Load(), c.Keys)
	})
	right := newReferences(c.Keys)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	var meter source.Meter // nobody asks this one
	for key := range c.Keys {
		group.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			start := time.Now()
			body, err := c.Source.Load(ctx, key, &meter)
			if err != nil {
				return err
			}
			spent.Add(int64(time.Since(start)))
			done.Add(1)
			right.set(key, body)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	call := time.Duration(spent.Load() / int64(c.Keys))
	c.Progress.Done(fmt.Sprintf("%d of %d, %v each", c.Keys, c.Keys, call.Round(100*time.Microsecond)))
	return right, call, nil
}

// run runs one level, from a cold start to the last trace of it.
func (c Config) run(ctx context.Context, step string, l level, right *references) (_ report.Level, err error) {
	var meter source.Meter
	answer, closeGuard, err := l.start(c.Source, &meter)
	if err != nil {
		return report.Level{}, err
	}
	service, err := serve(answer, c.Keys, c.Source.ContentType())
	if err != nil {
		return report.Level{}, err
	}
	base, closeFront := service.base, func(context.Context) error { return nil }
	if l.front != nil {
		front, err := startFront(*l.front, service.base)
		if err != nil {
			return report.Level{}, errors.Join(err, service.close(ctx), closeGuard(ctx))
		}
		base, closeFront = front.base, front.close
	}
	clients := newClients(c.Clients, c.Seed, base, right)
	defer func() {
		clients.close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, closeFront(ctx), service.close(ctx), closeGuard(ctx))
	}()

	loop := load.New(c.Clients, c.Duration, clients.ask)
	start := time.Now()
	c.Progress.Start(step, func() string {
		if past := time.Since(start); past < c.Duration {
			return fmt.Sprintf("%.1fs of %v, %d answers", past.Seconds(), c.Duration, loop.Answered())
		}
		return fmt.Sprintf("waiting for the last answers, %d so far", loop.Answered())
	})
	r, err := loop.Run(ctx)
	if err != nil {
		return report.Level{}, err
	}
	if n := clients.wrong.Load(); n > 0 {
		return report.Level{}, fmt.Errorf("level %s: %d of %d answers were not their key's", l.name, n, r.Requests)
	}
	out := summary(l, r, meter.Count())
	c.Progress.Done(fmt.Sprintf("%d requests, %d calls at the source", out.Requests, out.Calls))
	return out, nil
}

func summary(l level, r load.Result, at source.Count) report.Level {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	out := report.Level{
		Name:       l.name,
		Adds:       l.adds,
		Requests:   r.Requests,
		PerSecond:  float64(r.Requests-r.Failures) / r.Elapsed.Seconds(),
		P50MS:      ms(r.P50),
		P99MS:      ms(r.P99),
		SlowestMS:  ms(r.Slowest),
		Failures:   r.Failures,
		Calls:      at.Calls,
		MostAtOnce: at.Most,
		ElapsedS:   r.Elapsed.Seconds(),
	}
	if r.FirstFailure != nil {
		out.FirstFailure = r.FirstFailure.Error()
	}
	return out
}
