// Package pgtest gives tests the PostgreSQL that the test run has started.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-go/weir/lab/engine"
)

// URL returns the connection URL of a server for tests, as its superuser. Without a
// server it fails the test if engines are required, and skips it otherwise.
func URL(t testing.TB) string {
	t.Helper()
	name := engine.Env("postgres")
	url := os.Getenv(name)
	switch {
	case url != "":
		return url
	case os.Getenv("WEIR_TEST_ENGINES") == "required":
		t.Fatalf("%s is not set, and WEIR_TEST_ENGINES=required", name)
	default:
		t.Skipf("%s is not set; `make test` starts a PostgreSQL and sets it", name)
	}
	return ""
}

var schemas atomic.Int64

// Schema is URL with an empty schema for this test alone: unqualified names are
// looked up and created in it. It is dropped when the test ends.
func Schema(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(URL(t))
	if err != nil {
		t.Fatal(err)
	}
	// Several processes test packages at the same time.
	schema := fmt.Sprintf("weir_lab_%d_%d", os.Getpid(), schemas.Add(1))
	exec(t, t.Context(), "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		exec(t, ctx, "DROP SCHEMA "+schema+" CASCADE")
	})
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

func exec(t testing.TB, ctx context.Context, sql string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
