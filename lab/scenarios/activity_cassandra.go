package scenarios

import (
	"context"
	"fmt"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"
)

// cassandraStore is the store in a single Cassandra node.
type cassandraStore struct{ session *gocql.Session }

var _ activityStore = cassandraStore{}

// cassandraTimeout bounds a request, and the first connection. TRUNCATE takes seconds, and
// a server that has just started on a busy machine needs a minute for its first table.
const cassandraTimeout = 3 * time.Minute

func openCassandra(host string) (cassandraStore, error) {
	cluster := gocql.NewCluster(host)
	cluster.Timeout, cluster.ConnectTimeout = cassandraTimeout, cassandraTimeout
	// The driver delays each request briefly, to send others with it. That costs a
	// client that sends one request at a time over a millisecond.
	cluster.WriteCoalesceWaitTime = 0
	session, err := cluster.CreateSession()
	return cassandraStore{session}, err
}

const (
	cassandraColumns = "(id, user_id, at, document) VALUES (?, ?, ?, ?)"
	cassandraInsert  = "INSERT INTO lab.activities " + cassandraColumns
	cassandraArchive = "INSERT INTO lab.archive " + cassandraColumns
	cassandraFind    = "SELECT id, user_id, at, document FROM lab.archive WHERE id "
)

func (s cassandraStore) create(ctx context.Context) error {
	for _, cql := range []string{
		"CREATE KEYSPACE lab WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE lab.activities (id uuid PRIMARY KEY, user_id uuid, at timestamp, document text)",
		"CREATE TABLE lab.archive (id uuid PRIMARY KEY, user_id uuid, at timestamp, document text)",
	} {
		if err := s.session.Query(cql).ExecContext(ctx); err != nil {
			return fmt.Errorf("%s: %w", cql, err)
		}
	}
	return nil
}

func (s cassandraStore) archive(ctx context.Context, all []activity) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(32)
	for _, a := range all {
		g.Go(func() error { return s.one(ctx, cassandraArchive, a) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("fill the archive: %w", err)
	}
	return nil
}

func (s cassandraStore) clear(ctx context.Context) error {
	return s.session.Query("TRUNCATE lab.activities").ExecContext(ctx)
}

func (s cassandraStore) insert(ctx context.Context, a activity) error {
	return s.one(ctx, cassandraInsert, a)
}

func (s cassandraStore) one(ctx context.Context, cql string, a activity) error {
	return s.session.Query(cql, a.ID, a.User, a.At, a.Document).ExecContext(ctx)
}

// insertAll spans partitions, because each row is its own partition. On a single node
// that costs nothing extra; in a cluster one node would do the work of all.
func (s cassandraStore) insertAll(ctx context.Context, all []activity) error {
	b := s.session.Batch(gocql.UnloggedBatch)
	for _, a := range all {
		b.Query(cassandraInsert, a.ID, a.User, a.At, a.Document)
	}
	return b.ExecContext(ctx)
}

func (s cassandraStore) find(ctx context.Context, id uuid) (activity, error) {
	var a activity
	err := s.session.Query(cassandraFind+"= ?", id).ScanContext(ctx, &a.ID, &a.User, &a.At, &a.Document)
	return a, err
}

// findAll spans partitions, like insertAll.
func (s cassandraStore) findAll(ctx context.Context, ids []uuid) (map[uuid]activity, error) {
	found := make(map[uuid]activity, len(ids))
	return found, scanActivities(s.session.Query(cassandraFind+"IN ?", ids).IterContext(ctx), func(a activity) { found[a.ID] = a })
}

// each reads page by page, because a count(*) of this many rows can time out.
func (s cassandraStore) each(ctx context.Context, found func(activity)) error {
	return scanActivities(s.session.Query("SELECT id, user_id, at, document FROM lab.activities").PageSize(2000).IterContext(ctx), found)
}

func scanActivities(iter *gocql.Iter, found func(activity)) error {
	var a activity
	for iter.Scan(&a.ID, &a.User, &a.At, &a.Document) {
		found(a)
	}
	return iter.Close()
}

func (s cassandraStore) close() { s.session.Close() }
