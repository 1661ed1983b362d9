// Package pgtest provides the examples' tests with a table of products in the
// PostgreSQL server that make test has started.
package pgtest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A DB is a pool of connections to a separate schema, which counts its queries.
type DB struct {
	*pgxpool.Pool
	Queries atomic.Int64
}

// Open returns a DB with the table products, which has four products in two categories.
func Open(t *testing.T) *DB {
	t.Helper()
	url := os.Getenv("WEIR_TEST_POSTGRES")
	switch {
	case url != "":
	case os.Getenv("WEIR_TEST_ENGINES") == "required":
		t.Fatal("WEIR_TEST_POSTGRES is not set, and WEIR_TEST_ENGINES=required")
	default:
		t.Skip("WEIR_TEST_POSTGRES is not set; `make test` starts a PostgreSQL and sets it")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	schema := fmt.Sprintf("example_%d", os.Getpid())
	config.ConnConfig.RuntimeParams["search_path"] = schema
	db := &DB{}
	config.ConnConfig.Tracer = db
	if db.Pool, err = pgxpool.NewWithConfig(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		db.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		db.Close()
	})
	for _, sql := range []string{
		"DROP SCHEMA IF EXISTS " + schema + " CASCADE",
		"CREATE SCHEMA " + schema,
		"CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, cents int NOT NULL, category text NOT NULL)",
		`INSERT INTO products VALUES (1, 'pen', 250, 'desk'), (2, 'lamp', 4900, 'desk'),
			(3, 'fork', 700, 'kitchen'), (4, 'spoon', 650, 'kitchen')`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	db.Queries.Store(0)
	return db
}

// TraceQueryStart counts the queries; it is a method of pgx.QueryTracer.
func (db *DB) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	db.Queries.Add(1)
	return ctx
}

// TraceQueryEnd does nothing.
func (db *DB) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
