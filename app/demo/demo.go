// Package demo demonstrates Weir on this machine: a small HTTP service whose every response
// costs real work, under constant load from clients, first unprotected and then with one
// more level of protection at a time.
//
// Each level has its own service, Guard and connections and starts cold; the clients
// request the same keys in the same order. Every response is compared with the correct one,
// which is computed beforehand.
//
// Clients, service and source run in one process and share its processors, so compare the
// levels with each other, not with another machine.
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

// closeTimeout limits how long a level waits at its end for calls to the source that ignore
// their cancellation.
const closeTimeout = 10 * time.Second

// A Config configures a run. All numbers must be positive.
type Config struct {
	Source   source.Source
	Clients  int
	Keys     int
	Duration time.Duration // of each level
	Seed     uint64        // of the order of keys; any number
	// Gateway protects the service from outside, with a gateway in front of it, instead of
	// with a Guard in it.
	Gateway  bool
	Progress Progress

	// Board shows the levels while they run; nil: it is not used.
	Board *Board
	// After is called with the Result while the last level still runs, under a light load
	// that continues until After returns or ctx ends. Run returns its error. Nil: the last
	// level ends like all others.
	After func(Result) error
}

// A Progress shows the steps as they begin and end.
type Progress interface {
	// Start begins a step. Until Done or the next Start, detail may be called from any
	// goroutine and returns the progress.
	Start(step string, detail func() string)
	Done(result string)
}

// A Result holds the measurements of the levels.
type Result struct {
	Call   time.Duration // mean time of a call to the source with nothing else running and one call per CPU
	Levels []report.Level
}

// Run runs all levels, one after another. When it returns, nothing of them is left. If ctx
// ends, it returns the cause at once.
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
		err := c.run(ctx, place{i + 1, len(all)}, l, right, func(done report.Level) error {
			res.Levels = append(res.Levels, done)
			if c.After == nil || i < len(all)-1 {
				return nil
			}
			return c.After(res)
		})
		if err != nil {
			return Result{}, err
		}
	}
	return res, nil
}

// A place is the number of a level among all, from 1.
type place struct{ number, of int }

// prepare calls the source once for each key, to get the correct responses and the cost of
// one.
func prepare(ctx context.Context, c Config) (*references, time.Duration, error) {
	var done, spent atomic.Int64 // atomics because the progress reads one and all calls add to both
	c.Progress.Start("computing the correct responses", func() string {
		return fmt.Sprintf("%d of %d", done.Load(), c.Keys)
	})
	right := newReferences(c.Keys)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	var meter source.Meter // no client uses this one
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

// run runs one level from a cold start and removes it at the end. Before the removal it
// calls then with the measurements.
func (c Config) run(ctx context.Context, at place, l level, right *references, then func(report.Level) error) (err error) {
	var meter source.Meter
	stage, err := c.stage(ctx, fmt.Sprintf("%d %s", at.number, l.name), l, &meter)
	if err != nil {
		return err
	}
	clients := newClients(c.Clients, c.Seed, stage.base, right)
	defer func() {
		clients.close()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, stage.close(ctx))
		c.Board.freeze(stage.unit)
	}()

	loop := load.New(c.Clients, c.Duration, clients.ask)
	start := time.Now()
	c.Progress.Start(fmt.Sprintf("level %d of %d, %s", at.number, at.of, l.name), func() string {
		if past := time.Since(start); past < c.Duration {
			return fmt.Sprintf("%.1fs of %v, %d responses", past.Seconds(), c.Duration, loop.Answered())
		}
		return fmt.Sprintf("waiting for the last responses, %d so far", loop.Answered())
	})
	r, err := loop.Run(ctx)
	if err != nil {
		return err
	}
	if err := clients.mistakes(); err != nil {
		return fmt.Errorf("level %s: %w", l.name, err)
	}
	out := summary(l, r, meter.Count())
	c.Progress.Done(fmt.Sprintf("%d requests, %d upstream calls", out.Requests, out.Calls))
	if c.After == nil || at.number < at.of {
		return then(out)
	}
	return clients.humWhile(ctx, func() error { return then(out) })
}

func summary(l level, r load.Result, at source.Count) report.Level {
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	out := report.Level{
		Name:      l.name,
		Adds:      l.adds,
		Requests:  r.Requests,
		PerSecond: float64(r.Requests-r.Failures) / r.Elapsed.Seconds(),
		P50MS:     ms(r.P50),
		P99MS:     ms(r.P99),
		SlowestMS: ms(r.Slowest),
		Failures:  r.Failures,
		Calls:     at.Calls,
		Peak:      at.Most,
		ElapsedS:  r.Elapsed.Seconds(),
	}
	if r.FirstFailure != nil {
		out.FirstFailure = r.FirstFailure.Error()
	}
	return out
}
