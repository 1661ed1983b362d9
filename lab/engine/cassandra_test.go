package engine_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/weir-go/weir/lab/engine"
)

func startCassandra(t *testing.T, o engine.CassandraOptions) *engine.Server {
	t.Helper()
	need(t, "cassandra")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s, err := engine.Cassandra(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// useCassandra writes a row and returns the name that it reads back.
func useCassandra(t *testing.T, s *engine.Server) string {
	t.Helper()
	cluster := gocql.NewCluster(s.URL)
	cluster.Timeout = time.Minute // the machine may be busy
	cluster.ConnectTimeout = time.Minute
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, cql := range []string{
		`CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
		`CREATE TABLE k.names (id int PRIMARY KEY, name text)`,
		`INSERT INTO k.names (id, name) VALUES (7, 'Ada')`,
	} {
		if err := session.Query(cql).ExecContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", cql, err)
		}
	}
	var name string
	if err := session.Query(`SELECT name FROM k.names WHERE id = 7`).ScanContext(t.Context(), &name); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestCassandraStopLeavesNothing(t *testing.T) {
	dir := temp(t)
	s := startCassandra(t, engine.CassandraOptions{HeapMiB: 256, Sync: engine.SyncBatch})
	if got := useCassandra(t, s); got != "Ada" {
		t.Errorf("name %q; want Ada", got)
	}
	if n := len(entries(t, dir)); n != 1 {
		t.Errorf("%d folders while it runs; want 1", n)
	}
	if found, _ := filepath.Glob(fmt.Sprintf("/tmp/hsperfdata_*/%d", s.Pid())); len(found) > 0 {
		t.Errorf("Java keeps %v, outside the folder", found)
	}
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Errorf("Stop = %v; want nil", err)
		}
	}
	if !gone(s.Pid()) {
		t.Errorf("process %d still runs", s.Pid())
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCassandraStartEndsWithItsContext(t *testing.T) {
	need(t, "cassandra")
	dir := temp(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if s, err := engine.Cassandra(ctx, engine.CassandraOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Cassandra = %v; want DeadlineExceeded", err)
		if err == nil {
			s.Stop()
		}
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestCassandraOptionsAreChecked(t *testing.T) {
	_, err := engine.Cassandra(t.Context(), engine.CassandraOptions{HeapMiB: 1, Sync: "never"})
	for _, want := range []string{"HeapMiB is 1", `Sync is "never"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Cassandra = %v; want it to say %q", err, want)
		}
	}
}
