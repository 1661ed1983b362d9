// Package pgtest provides tests with the PostgreSQL server that the test run has started.
package pgtest

import (
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The environment variables with which make test passes the engines to the tests.
const (
	urlVar      = "WEIR_TEST_POSTGRES" // connection URL of a superuser
	requiredVar = "WEIR_TEST_ENGINES"  // "required": the engines must be available
)

// URL returns the connection URL of a test server, as its superuser. If there is none,
// the test fails if engines are required, and is skipped otherwise.
func URL(t testing.TB) string {
	t.Helper()
	url := os.Getenv(urlVar)
	switch {
	case url != "":
		return url
	case os.Getenv(requiredVar) == "required":
		t.Fatalf("%s is not set, but %s=required", urlVar, requiredVar)
	default:
		t.Skipf("%s is not set; `make test` starts a PostgreSQL and sets it", urlVar)
	}
	return ""
}

// Query returns the first column of the first row, as text.
func Query(t testing.TB, sql string, args ...any) string {
	t.Helper()
	conn := connect(t)
	var text string
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

// Exec runs a statement.
func Exec(t testing.TB, sql string) {
	t.Helper()
	conn := connect(t)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func connect(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), URL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}
