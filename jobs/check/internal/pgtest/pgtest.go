// Package pgtest provides tests with a PostgreSQL: a database on the server that the
// test run has started, or a server of the test's own, which can be killed, restarted
// and restored to an earlier point.
package pgtest

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// The environment variables with which make test passes the engines to the tests.
const (
	urlVar      = "WEIR_TEST_POSTGRES" // connection URL of a superuser
	requiredVar = "WEIR_TEST_ENGINES"  // "required": the engines must be available
)

// URL returns the connection URL of the shared server, as its superuser. If there is
// none, the test fails if engines are required, and is skipped otherwise.
func URL(t testing.TB) string {
	t.Helper()
	url := os.Getenv(urlVar)
	switch {
	case url != "":
	case os.Getenv(requiredVar) == "required":
		t.Fatalf("%s is not set, but %s=required", urlVar, requiredVar)
	default:
		t.Skipf("%s is not set; `make test` starts a PostgreSQL and sets it", urlVar)
	}
	return url
}

var databases atomic.Int64

// Database creates a database on the shared server, and returns its URL. It is dropped
// after the test. Notifications do not cross databases.
func Database(t testing.TB) string {
	t.Helper()
	server := URL(t)
	name := fmt.Sprintf("outbox_%d_%d", os.Getpid(), databases.Add(1))
	exec := func(text string) error {
		conn, err := pgx.Connect(context.Background(), server)
		if err != nil {
			return err
		}
		defer conn.Close(context.Background())
		_, err = conn.Exec(context.Background(), text)
		return err
	}
	if err := exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// Open opens a URL with database/sql and pgx's driver, until the test ends.
func Open(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
