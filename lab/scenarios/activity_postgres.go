package scenarios

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// activityPool bounds the connections of each service to PostgreSQL. More of them
// make single inserts slower, not faster: each connection is a server process, and
// the server has one processor.
const activityPool = 32

// postgresStore is a store in PostgreSQL.
type postgresStore struct{ pool *pgxpool.Pool }

var _ activityStore = postgresStore{}

// openPostgres connects. Without flush a commit is acknowledged before it is on disk.
func openPostgres(ctx context.Context, url string, flush bool) (postgresStore, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return postgresStore{}, err
	}
	config.MaxConns = activityPool
	if !flush {
		config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	return postgresStore{pool}, err
}

// ON CONFLICT makes an insert that is resent after a lost response harmless. The
// statement for one row has the same clauses as the one for many.
const (
	insertActivity = `INSERT INTO activities (id, user_id, at, document) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO NOTHING`
	insertActivities = `INSERT INTO activities (id, user_id, at, document)
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::jsonb[])
		ON CONFLICT (id) DO NOTHING`
	archivedColumns = `SELECT id, user_id, at, document::text FROM archive`
)

func (s postgresStore) create(ctx context.Context) error {
	for _, table := range []string{"activities", "archive"} {
		_, err := s.pool.Exec(ctx, "CREATE TABLE "+table+
			" (id uuid PRIMARY KEY, user_id uuid NOT NULL, at timestamptz NOT NULL, document jsonb NOT NULL)")
		if err != nil {
			return fmt.Errorf("create the table %s: %w", table, err)
		}
	}
	return nil
}

func (s postgresStore) archive(ctx context.Context, all []activity) error {
	_, err := s.pool.CopyFrom(ctx, pgx.Identifier{"archive"}, []string{"id", "user_id", "at", "document"},
		pgx.CopyFromSlice(len(all), func(i int) ([]any, error) {
			a := &all[i]
			return []any{a.ID, a.User, a.At, a.Document}, nil
		}))
	if err != nil {
		return fmt.Errorf("fill the archive: %w", err)
	}
	_, err = s.pool.Exec(ctx, "ANALYZE archive")
	return err
}

// clear also makes the server write out its pages; otherwise it would do that in the
// middle of a measurement.
func (s postgresStore) clear(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, "TRUNCATE activities"); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, "CHECKPOINT")
	return err
}

func (s postgresStore) insert(ctx context.Context, a activity) error {
	_, err := s.pool.Exec(ctx, insertActivity, a.ID, a.User, a.At, a.Document)
	return err
}

func (s postgresStore) insertAll(ctx context.Context, all []activity) error {
	ids, users := make([]uuid, len(all)), make([]uuid, len(all))
	times, documents := make([]time.Time, len(all)), make([]string, len(all))
	for i, a := range all {
		ids[i], users[i], times[i], documents[i] = a.ID, a.User, a.At, a.Document
	}
	_, err := s.pool.Exec(ctx, insertActivities, ids, users, times, documents)
	return err
}

func (s postgresStore) find(ctx context.Context, id uuid) (activity, error) {
	var a activity
	err := s.pool.QueryRow(ctx, archivedColumns+" WHERE id = $1", id).Scan(&a.ID, &a.User, &a.At, &a.Document)
	return a, err
}

func (s postgresStore) findAll(ctx context.Context, ids []uuid) (map[uuid]activity, error) {
	found := make(map[uuid]activity, len(ids))
	err := s.rows(ctx, func(a activity) { found[a.ID] = a }, archivedColumns+" WHERE id = ANY($1)", ids)
	return found, err
}

func (s postgresStore) each(ctx context.Context, found func(activity)) error {
	return s.rows(ctx, found, "SELECT id, user_id, at, document::text FROM activities")
}

func (s postgresStore) rows(ctx context.Context, found func(activity), query string, args ...any) error {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	var a activity
	_, err = pgx.ForEachRow(rows, []any{&a.ID, &a.User, &a.At, &a.Document}, func() error {
		found(a)
		return nil
	})
	return err
}

func (s postgresStore) close() { s.pool.Close() }
