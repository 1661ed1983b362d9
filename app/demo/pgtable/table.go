// Package pgtable is the demo's database work: a table of orders that it generates in its
// own schema, and an aggregate query for each of its shops. Drop removes all of it.
package pgtable

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/weir-go/weir/app/demo/source"
)

const (
	// SchemaPrefix is the prefix of the names of the demo's schemas.
	SchemaPrefix = "weir_demo_"

	// MaxConns limits the connections for queries. By default a server allows 100, and it
	// has other users.
	MaxConns = 32

	// batch is how many rows one statement inserts: an interrupt and the
	// progress wait for one statement at most.
	batch = 50_000

	connectTimeout = 5 * time.Second
	dropTimeout    = 15 * time.Second
)

// Options configures the table.
type Options struct {
	Rows int // of the table, at least Keys
	Keys int // shops, which are the keys of Load; positive

	// Created is called with the name of the schema before it is created, and Progress with
	// the number of rows written so far. Both may be nil.
	Created  func(schema string)
	Progress func(rows int)
}

// A Table is the generated table, and a source of its shops' figures. It must
// be dropped.
type Table struct {
	server Server
	schema string
	pool   *pgxpool.Pool
	query  string
}

var _ source.Source = (*Table)(nil)

// Create makes a schema with the table in it, filled, indexed and analyzed.
// If it fails or ctx ends, it leaves nothing behind; if the cleanup fails too, the error
// reports what is left.
func Create(ctx context.Context, s Server, o Options) (*Table, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer closeConn(conn)

	schema, err := schemaName()
	if err != nil {
		return nil, err
	}
	t := &Table{server: s, schema: schema}
	if o.Created != nil {
		o.Created(schema)
	}
	if _, err := conn.Exec(ctx, "CREATE SCHEMA "+t.quoted()); err != nil {
		if _, refused := errors.AsType[*pgconn.PgError](err); refused {
			return nil, s.describe(ctx, "create a schema", err)
		}
		// The response was lost, or an interrupt did not wait for it.
		return nil, errors.Join(s.describe(ctx, "create a schema", err), t.Drop(context.WithoutCancel(ctx)))
	}
	if err := t.fill(ctx, conn, o); err != nil {
		return nil, errors.Join(err, t.Drop(context.WithoutCancel(ctx)))
	}
	if err := t.open(ctx); err != nil {
		return nil, errors.Join(err, t.Drop(context.WithoutCancel(ctx)))
	}
	return t, nil
}

// fill writes the rows. Their values are computed from the row number, so tables of the
// same size are identical.
func (t *Table) fill(ctx context.Context, conn *pgx.Conn, o Options) error {
	table := t.quoted("orders")
	exec := func(doing, sql string, args ...any) error {
		if _, err := conn.Exec(ctx, sql, args...); err != nil {
			return t.server.describe(ctx, doing, err)
		}
		return nil
	}
	if err := exec("create the table", "CREATE UNLOGGED TABLE "+table+
		" (id bigint NOT NULL, shop integer NOT NULL, cents bigint NOT NULL)"); err != nil {
		return err
	}
	insert := "INSERT INTO " + table +
		" SELECT g, g % $1, g * 2654435761 % 99991 FROM generate_series($2::bigint, $3::bigint) AS g"
	for done := 0; done < o.Rows; {
		next := min(done+batch, o.Rows)
		if err := exec("write the table", insert, o.Keys, done, next-1); err != nil {
			return err
		}
		done = next
		if o.Progress != nil {
			o.Progress(done)
		}
	}
	if err := exec("index the table", "CREATE INDEX ON "+table+" (shop)"); err != nil {
		return err
	}
	return exec("analyze the table", "ANALYZE "+table)
}

// open creates the pool for queries, which opens connections on demand.
func (t *Table) open(ctx context.Context) error {
	cfg := t.server.pool.Copy()
	cfg.MaxConns = MaxConns
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return t.server.describe(ctx, "connect", err)
	}
	t.pool = pool
	t.query = "SELECT json_build_object('shop', $1::integer, 'orders', count(*), 'cents', sum(cents)," +
		" 'median', percentile_disc(0.5) WITHIN GROUP (ORDER BY cents)," +
		" 'p99', percentile_disc(0.99) WITHIN GROUP (ORDER BY cents))::text" +
		" FROM " + t.quoted("orders") + " WHERE shop = $1::integer"
	return nil
}

// ContentType returns the media type of JSON.
func (t *Table) ContentType() string { return "application/json" }

// Load computes the figures of the key's shop. Waiting for a connection is not work of the
// database, so the meter starts after it.
func (t *Table) Load(ctx context.Context, key int, m *source.Meter) ([]byte, error) {
	conn, err := t.pool.Acquire(ctx)
	if err != nil {
		return nil, t.server.describe(ctx, "get a connection", err)
	}
	defer conn.Release()
	defer m.Begin()()
	var figures []byte
	if err := conn.QueryRow(ctx, t.query, key).Scan(&figures); err != nil {
		return nil, t.server.describe(ctx, "run the query", err)
	}
	return figures, nil
}

// Schema is the name of the schema that holds the table.
func (t *Table) Schema() string { return t.schema }

// Drop closes the connections and drops the schema. It waits for running queries. The error
// names what is left and the statement that removes it.
func (t *Table) Drop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	if t.pool != nil {
		t.pool.Close()
	}
	drop := "DROP SCHEMA IF EXISTS " + t.quoted() + " CASCADE"
	conn, err := t.server.connect(ctx)
	if err == nil {
		defer closeConn(conn)
		if _, err = conn.Exec(ctx, drop); err != nil {
			err = t.server.describe(ctx, "drop the schema", err)
		}
	}
	if err != nil {
		return &LeftBehindError{Schema: t.schema, Remedy: drop, Err: err}
	}
	return nil
}

// A LeftBehindError is returned by Drop, and by Create after a failure, when
// the schema could not be dropped.
type LeftBehindError struct {
	Schema string
	Remedy string // the statement that drops it
	Err    error
}

func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("schema %s is left behind; remove it with %s; %v", e.Schema, e.Remedy, e.Err)
}

// Unwrap returns why the schema could not be dropped.
func (e *LeftBehindError) Unwrap() error { return e.Err }

// quoted returns the schema's name, or that of something in it, as SQL.
func (t *Table) quoted(name ...string) string {
	return pgx.Identifier(append([]string{t.schema}, name...)).Sanitize()
}

func schemaName() (string, error) {
	b := make([]byte, 6)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("name a schema: %w", err)
	}
	return SchemaPrefix + hex.EncodeToString(b), nil
}

// closeConn closes the connection cleanly, within a short timeout.
func closeConn(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // nothing on it can be lost any more
}
