package inserts

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// An Order is a row that a caller inserts.
type Order struct {
	ID       int64 // assigned by the caller
	Customer int32
	Cents    int64 // more than 0, or the table refuses it
	Note     string
}

// NewOrder returns the order with that id. The same id always gives the same order,
// so a table can be checked without a copy of its content.
func NewOrder(id int64) Order {
	return Order{
		ID:       id,
		Customer: int32(id * 7919 % 100_003),
		Cents:    1 + id*104_729%99_991,
		Note:     fmt.Sprintf("order %d, to be left with the neighbors", id),
	}
}

// The table's statements. The one for a single order has the same clauses as the one
// for many, so that the two are comparable.
const (
	createTable = `CREATE TABLE orders (
		id       bigint PRIMARY KEY,
		number   bigint GENERATED ALWAYS AS IDENTITY,
		customer integer NOT NULL,
		cents    bigint NOT NULL CONSTRAINT orders_cents CHECK (cents > 0),
		note     text NOT NULL
	)`

	insertOne = `INSERT INTO orders (id, customer, cents, note) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING number`

	insertAll = `INSERT INTO orders (id, customer, cents, note)
		SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[], $4::text[])
		ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING id, number`
)

// A DB is a connection, a transaction or a pool of pgx.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error)
}

// Create creates the table orders, replacing an existing one.
func Create(ctx context.Context, db DB) error {
	for _, sql := range []string{`DROP TABLE IF EXISTS orders`, createTable} {
		if _, err := db.Exec(ctx, sql); err != nil {
			return fmt.Errorf("inserts: create the table: %w", err)
		}
	}
	return nil
}

// Insert inserts one order and returns the number that the table gave it.
func Insert(ctx context.Context, db DB, o Order) (number int64, err error) {
	err = db.QueryRow(ctx, insertOne, o.ID, o.Customer, o.Cents, o.Note).Scan(&number)
	return number, err
}

// InsertAll inserts orders in one statement: all of them or, with an error, none. It
// returns their numbers in the same order. Orders that are already in the table stay
// unchanged. No id may occur twice.
func InsertAll(ctx context.Context, db DB, orders []Order) ([]int64, error) {
	ids := make([]int64, len(orders))
	customers := make([]int32, len(orders))
	cents := make([]int64, len(orders))
	notes := make([]string, len(orders))
	at := make(map[int64]int, len(orders))
	for i, o := range orders {
		ids[i], customers[i], cents[i], notes[i] = o.ID, o.Customer, o.Cents, o.Note
		at[o.ID] = i
	}
	rows, err := db.Query(ctx, insertAll, ids, customers, cents, notes)
	if err != nil {
		return nil, err
	}
	// The order of the returned rows is not guaranteed.
	numbers := make([]int64, len(orders))
	var id, number int64
	_, err = pgx.ForEachRow(rows, []any{&id, &number}, func() error {
		numbers[at[id]] = number
		return nil
	})
	if err != nil {
		return nil, err // includes errors after the rows: of the commit
	}
	return numbers, nil
}

// CopyAll inserts orders by COPY: all of them or, with an error, none. COPY returns
// no rows and has no ON CONFLICT: an id that is already in the table is an error.
func CopyAll(ctx context.Context, db DB, orders []Order) error {
	_, err := db.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "customer", "cents", "note"},
		pgx.CopyFromSlice(len(orders), func(i int) ([]any, error) {
			o := &orders[i]
			return []any{o.ID, o.Customer, o.Cents, o.Note}, nil
		}))
	return err
}
