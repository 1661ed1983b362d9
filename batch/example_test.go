package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-go/weir/batch"
)

// Three goroutines insert one row each, with a single bulk call.
func ExampleBatcher_Do() {
	ctx := context.Background()
	// It stands for INSERT INTO events ... RETURNING id.
	insert := func(ctx context.Context, events []string) ([]int, error) {
		fmt.Println("insert", len(events), "events")
		ids := make([]int, len(events))
		for i := range events {
			ids[i] = 100 + i
		}
		return ids, nil
	}
	events := batch.Must(batch.New(insert, batch.Options{MaxSize: 3, Linger: 5 * time.Second}))
	defer events.Close(ctx)

	var wg sync.WaitGroup
	for _, name := range []string{"signed up", "logged in", "logged out"} {
		wg.Go(func() {
			id, err := events.Do(ctx, name)
			if id < 100 || err != nil {
				fmt.Println(name, id, err)
			}
		})
	}
	wg.Wait()
	// Output:
	// insert 3 events
}

// A bulk call that fails for some of its items reports which.
func ExampleErrors() {
	ctx := context.Background()
	empty := errors.New("empty name")
	insert := func(ctx context.Context, names []string) ([]struct{}, error) {
		errs := make(batch.Errors, len(names))
		failed := false
		for i, name := range names {
			if name == "" {
				errs[i], failed = empty, true
			}
		}
		if failed {
			return nil, errs // no results: struct{} has no size
		}
		return nil, nil
	}
	users := batch.Must(batch.New(insert, batch.Options{MaxSize: 2, Linger: 5 * time.Second}))
	defer users.Close(ctx)

	var wg sync.WaitGroup
	answers := make([]error, 2)
	for i, name := range []string{"Ada", ""} {
		wg.Go(func() { _, answers[i] = users.Do(ctx, name) })
	}
	wg.Wait()
	fmt.Println(answers[0], "|", answers[1])
	// Output:
	// <nil> | empty name
}

// Rows of different tenants are never in the same transaction, and one bad row
// does not fail the others.
func ExampleNewFrom() {
	type row struct {
		tenant string
		price  int
	}
	ctx := context.Background()
	negative := errors.New("price below zero")
	// It stands for a transaction: all rows or none.
	insert := func(ctx context.Context, rows []row) ([]struct{}, error) {
		for _, r := range rows {
			if r.price < 0 {
				return nil, negative
			}
		}
		return nil, nil
	}
	prices := batch.Must(batch.NewFrom(batch.Source[row, struct{}]{
		Run:   insert,
		Scope: func(r row) any { return r.tenant },
		Retry: func(err error) bool { return errors.Is(err, negative) },
	}, batch.Options{MaxSize: 2, Linger: 5 * time.Second, RetrySingly: true}))
	defer prices.Close(ctx)

	rows := []row{{"a", 7}, {"a", -1}, {"b", 8}, {"b", 9}}
	answers := make([]error, len(rows))
	var wg sync.WaitGroup
	for i, r := range rows {
		wg.Go(func() { _, answers[i] = prices.Do(ctx, r) })
	}
	wg.Wait()
	for i, r := range rows {
		fmt.Println(r, answers[i])
	}
	st := prices.Stats()
	fmt.Println(st.Batches, "bulk calls,", st.Retries, "items tried alone")
	// Output:
	// {a 7} <nil>
	// {a -1} price below zero
	// {b 8} <nil>
	// {b 9} <nil>
	// 4 bulk calls, 2 items tried alone
}
