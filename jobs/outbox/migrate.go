package outbox

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the migrations as SQL files, for a migration tool of yours. Their
// names begin with their version, from 0001. A schema that was migrated with them has no
// table weir_outbox_version; create it as MigrationsVersion shows.
func Migrations() fs.FS {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic("outbox: " + err.Error()) // the folder is embedded
	}
	return sub
}

// MigrationsVersion is the SQL that records a version. NewRelay checks the recorded
// version; Migrate runs this after each migration.
const MigrationsVersion = `CREATE TABLE IF NOT EXISTS weir_outbox_version (
	version    integer     NOT NULL PRIMARY KEY,
	applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO weir_outbox_version (version) VALUES (%d);`

// MigrateOptions configure Migrate. The zero MigrateOptions are the defaults.
type MigrateOptions struct {
	// Schema is the schema of the table, which must exist. Empty: the first of the
	// connection's search path.
	Schema string
}

// A Beginner begins transactions: a *sql.DB or a *sql.Conn. For a pgxpool.Pool, use
// stdlib.OpenDBFromPool of pgx.
type Beginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// Migrate creates the table, or updates it to the version of this package, in one
// transaction. If it is up to date or newer, Migrate changes nothing. Any number of
// processes can run it at the same time.
func Migrate(ctx context.Context, db Beginner, o MigrateOptions) error {
	all, err := readMigrations()
	if err != nil {
		return err
	}
	return migrate(ctx, db, o, all)
}

// readMigrations returns the texts of the migrations, in order.
func readMigrations() ([]string, error) {
	names, err := fs.Glob(Migrations(), "*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var all []string
	for i, name := range names {
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			return nil, fmt.Errorf("outbox: migration %d is in file %s", i+1, name)
		}
		text, err := files.ReadFile(path.Join("migrations", name))
		if err != nil {
			return nil, err
		}
		all = append(all, string(text))
	}
	return all, nil
}

// lockKey is the advisory lock of all migrations of this package in a database.
const lockKey = 0x776569726f757462 // "weiroutb"

func migrate(ctx context.Context, db Beginner, o MigrateOptions, all []string) error {
	f := newFaults("MigrateOptions.")
	if f.schema(o.Schema); f.Err() != nil {
		return f.Err()
	}
	// READ COMMITTED: after the wait for the lock, the statements must see what the
	// transaction that held it has created.
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("outbox: migrate: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	run := []string{fmt.Sprintf("SELECT pg_advisory_xact_lock(%d)", int64(lockKey))}
	if o.Schema != "" {
		run = append(run, fmt.Sprintf(`SET LOCAL search_path TO "%s"`, o.Schema))
	}
	for _, text := range run {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return fmt.Errorf("outbox: migrate: %w", err)
		}
	}
	have, err := tableVersion(ctx, tx, "")
	for n := have; err == nil && n < len(all); n++ {
		if _, err = tx.ExecContext(ctx, all[n]); err == nil {
			_, err = tx.ExecContext(ctx, fmt.Sprintf(MigrationsVersion, n+1))
		}
		if err != nil {
			err = fmt.Errorf("version %d: %w", n+1, err)
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("outbox: migrate: %w", err)
	}
	return nil
}

// A querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// tableVersion returns the version of the table; 0: there is none.
func tableVersion(ctx context.Context, db querier, schema string) (version int, err error) {
	name := "weir_outbox_version"
	if schema != "" {
		name = `"` + schema + `".` + name
	}
	var there bool
	if err := db.QueryRowContext(ctx, `SELECT to_regclass($1::text) IS NOT NULL`, name).Scan(&there); err != nil || !there {
		return 0, err
	}
	return version, db.QueryRowContext(ctx, newStatements(schema).version).Scan(&version)
}
