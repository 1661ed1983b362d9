package batching_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/jackc/pgx/v5"

	"github.com/weir-go/weir/lab/internal/pgtest"
)

// prints returns the expected output from the last comment of an example.
func prints(t *testing.T, file, name string) string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Name.Name != name {
			continue
		}
		for _, c := range f.Comments {
			if text, ok := strings.CutPrefix(c.Text(), "Prints:\n"); ok && fn.Pos() < c.Pos() && c.End() < fn.End() {
				return text
			}
		}
	}
	t.Fatalf("%s has no function %s with a comment // Prints:", file, name)
	return ""
}

// check runs an example and compares its output.
func check(t *testing.T, file, name string, example func()) {
	t.Helper()
	want := prints(t, file, name)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	read := make(chan string)
	go func() {
		var b bytes.Buffer
		_, _ = io.Copy(&b, r) // a failure shows as missing output
		read <- b.String()
	}()
	func() {
		defer func() { os.Stdout = stdout; w.Close() }()
		example()
	}()
	if got := <-read; got != want {
		t.Errorf("%s printed\n%swant\n%s", name, got, want)
	}
}

func TestPostgresExamples(t *testing.T) {
	url := pgtest.Schema(t)
	t.Setenv("DATABASE_URL", url)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, sql := range []string{
		`CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL)`,
		`INSERT INTO customers VALUES (7, 'Ada')`,
		`CREATE TABLE orders (
			id     uuid PRIMARY KEY,
			number bigint GENERATED ALWAYS AS IDENTITY,
			cents  bigint NOT NULL CHECK (cents > 0)
		)`,
		`CREATE TABLE events (at timestamptz NOT NULL, kind text NOT NULL, body jsonb NOT NULL)`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	check(t, "example_read_test.go", "Example_readPostgres", Example_readPostgres)
	check(t, "example_insert_test.go", "Example_insertPostgres", Example_insertPostgres)
	check(t, "example_copy_test.go", "Example_copyPostgres", Example_copyPostgres)
}

// The examples for Cassandra run if WEIR_TEST_CASSANDRA is the host:port of a server,
// as set by `go run ./lab/cmd/with cassandra`.
func TestCassandraExamples(t *testing.T) {
	host := os.Getenv("WEIR_TEST_CASSANDRA")
	switch {
	case host != "":
	case os.Getenv("WEIR_TEST_ENGINES") == "required":
		t.Fatal("WEIR_TEST_CASSANDRA is not set, and WEIR_TEST_ENGINES=required")
	default:
		t.Skip("WEIR_TEST_CASSANDRA is not set")
	}
	t.Setenv("CASSANDRA_HOST", host)
	cluster := gocql.NewCluster(host)
	session, err := cluster.CreateSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, cql := range []string{
		`DROP KEYSPACE IF EXISTS weather`,
		`CREATE KEYSPACE weather WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
		`CREATE TABLE weather.readings (sensor text, at timestamp, celsius double, PRIMARY KEY (sensor, at))`,
	} {
		if err := session.Query(cql).ExecContext(t.Context()); err != nil {
			t.Fatalf("%s: %v", cql, err)
		}
	}
	check(t, "example_cassandra_test.go", "Example_writeCassandra", Example_writeCassandra)
	check(t, "example_cassandra_test.go", "Example_readCassandra", Example_readCassandra)
	if err := session.Query(`DROP KEYSPACE weather`).ExecContext(t.Context()); err != nil {
		t.Error(err)
	}
}
