package limit_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/weir-go/weir/limit"
)

func ExampleConcurrency() {
	db, err := limit.NewConcurrency(limit.ConcurrencyOptions{Name: "db", Limit: 1, Queue: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	query := func(ctx context.Context) error {
		p, err := db.Acquire(ctx)
		if err != nil {
			return err
		}
		defer p.Release(limit.Ignored) // for a panic; does nothing after the Release below

		_, err = db.Acquire(ctx) // another caller, at the same time
		fmt.Println(err)

		p.Release(limit.Success)
		return nil
	}
	fmt.Println(query(context.Background()), db.Stats().InUse)
	// Output:
	// limit: "db": queue full, retry after 1s
	// <nil> 0
}

// The limit is derived from the outcomes of the calls, so they must be accurate.
func ExampleAdaptive() {
	search, err := limit.NewAdaptive(limit.AdaptiveOptions{Name: "search", Max: 200})
	if err != nil {
		fmt.Println(err)
		return
	}
	ask := func(ctx context.Context, query func(context.Context) error) error {
		p, err := search.Acquire(ctx)
		if err != nil {
			return err
		}
		defer p.Release(limit.Ignored) // for a panic; does nothing after the Release below

		err = query(ctx)
		switch {
		case err == nil:
			p.Release(limit.Success)
		case errors.Is(err, context.Canceled):
			p.Release(limit.Ignored) // the caller gave up
		default:
			p.Release(limit.Dropped) // it timed out, or the source is overloaded
		}
		return err
	}
	fmt.Println(ask(context.Background(), func(context.Context) error { return nil }))
	s := search.Stats()
	fmt.Println(s.Limit, s.InUse, s.Admitted)
	// Output:
	// <nil>
	// 10 0 1
}

// A dry run shows what a limit would do, without enforcing it.
func ExampleAdaptive_dryRun() {
	db, _ := limit.NewAdaptive(limit.AdaptiveOptions{Initial: 1, Queue: 2, DryRun: true})
	for range 5 {
		if _, err := db.Acquire(context.Background()); err != nil {
			fmt.Println(err)
		}
	}
	s := db.Stats()
	fmt.Println(s.InUse, "in progress with a limit of", s.Limit)
	fmt.Println(s.WouldWait, "would have waited,", s.WouldRefuse[limit.QueueFull], "been refused")
	// Output:
	// 5 in progress with a limit of 1
	// 2 would have waited, 2 been refused
}

// A queued caller is joined by another one that arrives later and has a higher class.
func ExamplePlace() {
	db, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
	p, _ := db.Acquire(context.Background())

	var at limit.Place
	ctx := limit.ContextWithPlace(limit.ContextWithPriority(context.Background(), limit.Low), &at)
	done := make(chan error)
	go func() {
		p, err := db.Acquire(ctx)
		p.Release(limit.Success)
		done <- err
	}()
	for db.Stats().Queued == 0 {
		runtime.Gosched()
	}

	fmt.Println(at.Join(time.Time{}, limit.High)) // no deadline
	fmt.Println(at.Join(time.Now(), limit.High))  // a deadline that has come
	p.Release(limit.Success)
	fmt.Println(<-done)
	_, queued := at.Wait()
	fmt.Println(queued)
	// Output:
	// <nil>
	// limit: wait outlasts the deadline, retry after 1s
	// <nil>
	// false
}

func ExampleError() {
	api, _ := limit.NewRateLimiter(limit.RateOptions{Name: "api", PerSecond: 1e-9, Burst: 1, MaxWait: -1})
	api.TryAcquire()

	_, err := api.TryAcquire()
	var refusal *limit.Error
	if errors.As(err, &refusal) {
		fmt.Println(refusal.Reason, refusal.RetryAfter.Hours() > 24)
	}
	fmt.Println(errors.Is(err, limit.ErrLimited))
	// Output:
	// rate exceeded true
	// true
}

func ExampleRateLimiter_Reserve() {
	api, _ := limit.NewRateLimiter(limit.RateOptions{PerSecond: 10, Burst: 1})
	first, _ := api.Reserve()
	second, _ := api.Reserve()
	fmt.Println(first.Delay(), second.Delay() > 0)

	second.Cancel() // not needed after all
	fmt.Println(api.Stats().Queued)
	// Output:
	// 0s true
	// 0
}

// If a call gets a token but no permit, the token is returned.
func ExampleAll() {
	rate, _ := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1, Burst: 10})
	slots, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1})
	source := limit.All(rate, slots)

	_, err := source.Acquire(context.Background())
	fmt.Println(err)
	_, err = source.Acquire(context.Background())
	fmt.Println(err)
	fmt.Println(rate.Stats().Returned)
	// Output:
	// <nil>
	// limit: queue full, retry after 1s
	// 1
}

// The highest class is served first, in whatever order the callers arrive.
func ExampleContextWithPriority() {
	db, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1})
	p, _ := db.Acquire(context.Background())

	served := make(chan string)
	for i, caller := range []struct {
		name  string
		class limit.Priority
	}{
		{"report", limit.Low},
		{"page", limit.Normal},
		{"payment", limit.High},
	} {
		go func() {
			p, _ := db.Acquire(limit.ContextWithPriority(context.Background(), caller.class))
			served <- caller.name
			p.Release(limit.Success)
		}()
		for db.Stats().Queued <= i { // until it waits
			runtime.Gosched()
		}
	}
	p.Release(limit.Success)
	for range 3 {
		fmt.Println(<-served)
	}
	// Output:
	// payment
	// page
	// report
}

// Background work leaves a tenth of the permits free, and at least one.
func ExampleContextWithPriority_background() {
	db, _ := limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 2})
	ctx := limit.ContextWithPriority(context.Background(), limit.Background)

	_, err := db.Acquire(ctx)
	fmt.Println(err)
	_, err = db.Acquire(ctx)
	fmt.Println(err)
	_, err = db.Acquire(context.Background())
	fmt.Println(err)
	// Output:
	// <nil>
	// limit: nothing to spare for background work, retry after 1s
	// <nil>
}

// A custom Limiter that admits every caller and prints the outcome of each release.
func ExampleNewPermit() {
	open := limiterFunc(func(context.Context) (limit.Permit, error) {
		return limit.NewPermit(func(o limit.Outcome) { fmt.Println("released:", o) }), nil
	})
	p, _ := limit.All(open, open).Acquire(context.Background())
	p.Release(limit.Dropped)
	// Output:
	// released: dropped
	// released: dropped
}
