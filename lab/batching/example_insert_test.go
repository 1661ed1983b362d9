package batching_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/batch"
)

// An Order is a row of
//
//	CREATE TABLE orders (
//		id     uuid PRIMARY KEY,
//		number bigint GENERATED ALWAYS AS IDENTITY,
//		cents  bigint NOT NULL CHECK (cents > 0)
//	)
type Order struct {
	ID    [16]byte // a UUID that the caller has made
	Cents int64
}

// badRow reports whether the server says that a row is to blame: bad data
// (class 22) or a broken constraint (class 23). Its statement has changed
// nothing then, so the other rows may be sent again.
func badRow(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23"))
}

// Every caller inserts one order and gets its number, or its own error. The
// database sees one INSERT for all that have come together.
func Example_insertPostgres() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()

	// One statement is one transaction: it inserts all orders or none. An
	// order that is there already was sent before, and keeps its number.
	insert := func(ctx context.Context, orders []Order) ([]int64, error) {
		ids, cents := make([][16]byte, len(orders)), make([]int64, len(orders))
		at := make(map[[16]byte]int, len(orders))
		for i, o := range orders {
			ids[i], cents[i], at[o.ID] = o.ID, o.Cents, i
		}
		rows, err := pool.Query(ctx, `
			INSERT INTO orders (id, cents)
			SELECT * FROM unnest($1::uuid[], $2::bigint[])
			ON CONFLICT (id) DO UPDATE SET id = excluded.id
			RETURNING id, number`, ids, cents)
		if err != nil {
			return nil, err
		}
		numbers := make([]int64, len(orders)) // in the order of orders, which SQL does not promise
		var id [16]byte
		var number int64
		_, err = pgx.ForEachRow(rows, []any{&id, &number}, func() error {
			numbers[at[id]] = number
			return nil
		})
		return numbers, err
	}
	orders, err := batch.NewFrom(
		batch.Source[Order, int64]{Run: insert, Retry: badRow},
		batch.Options{MaxSize: 500, RetrySingly: true},
	)
	if err != nil {
		log.Fatal(err)
	}
	defer orders.Close(ctx) // before the pool

	prices := []int64{1250, -1, 990}
	answers := make([]string, len(prices))
	var callers sync.WaitGroup
	for i, cents := range prices {
		callers.Go(func() {
			number, err := orders.Do(ctx, Order{ID: [16]byte{15: byte(i)}, Cents: cents})
			switch {
			case err == nil:
				answers[i] = fmt.Sprintln("order", i, "has a number:", number > 0)
			case badRow(err):
				answers[i] = fmt.Sprintln("order", i, "is refused:", err)
			case errors.Is(err, batch.ErrUnknown):
				answers[i] = fmt.Sprintln("order", i, "may be stored; send it again with the same id")
			default:
				answers[i] = fmt.Sprintln("order", i, "failed:", err)
			}
		})
	}
	callers.Wait()
	fmt.Print(strings.Join(answers, ""))
	// Prints:
	// order 0 has a number: true
	// order 1 is refused: ERROR: new row for relation "orders" violates check constraint "orders_cents_check" (SQLSTATE 23514)
	// order 2 has a number: true
}
