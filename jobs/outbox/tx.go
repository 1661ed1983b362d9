package outbox

import (
	"context"
	"database/sql"
)

// A Tx is the caller's transaction, as returned by [SQL] or [Pgx]. The zero Tx is not
// usable.
type Tx struct {
	exec func(ctx context.Context, query string, args ...any) error
}

// SQL returns the Tx of a *sql.Tx, with any driver for PostgreSQL. A *sql.Conn with an
// open transaction and the transactions of libraries that wrap database/sql can be used
// too. A *sql.DB can be used if the insert is a transaction without other statements.
func SQL(tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}) Tx {
	return Tx{func(ctx context.Context, query string, args ...any) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	}}
}

// Pgx returns the Tx of a pgx.Tx, or of a *pgx.Conn with an open transaction. The type
// parameter is inferred: it is pgconn.CommandTag, which this package does not import.
func Pgx[Tag any](tx interface {
	Exec(ctx context.Context, query string, args ...any) (Tag, error)
}) Tx {
	return Tx{func(ctx context.Context, query string, args ...any) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	}}
}
