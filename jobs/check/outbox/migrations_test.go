package outbox_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/weir-go/weir/jobs/outbox"
)

// schema describes all tables of a schema: columns, constraints, indexes and settings.
func (r *rig) schema(name string) string {
	r.Helper()
	var all []string
	for _, query := range []string{
		`SELECT table_name || '.' || column_name || ' ' || ordinal_position || ' ' || data_type || ' null:' || is_nullable ||
			' default:' || coalesce(column_default, '') || ' identity:' || coalesce(identity_generation, '')
			FROM information_schema.columns WHERE table_schema = $1`,
		`SELECT r.relname || ' constraint ' || c.conname || ' ' || pg_get_constraintdef(c.oid)
			FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid JOIN pg_namespace n ON n.oid = r.relnamespace WHERE n.nspname = $1`,
		`SELECT replace(indexdef, schemaname || '.', '') FROM pg_indexes WHERE schemaname = $1`,
		`SELECT r.relname || ' ' || r.relkind::text || ' ' || coalesce(array_to_string(r.reloptions, ' '), '')
			FROM pg_class r JOIN pg_namespace n ON n.oid = r.relnamespace WHERE n.nspname = $1`,
	} {
		rows, err := r.pool.Query(r.Context(), query, name)
		if err != nil {
			r.Fatal(err)
		}
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				r.Fatal(err)
			}
			all = append(all, line)
		}
		if err := rows.Err(); err != nil {
			r.Fatal(err)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// in runs a script with a search path.
func (r *rig) in(schema, script string) {
	r.Helper()
	conn, err := r.pool.Acquire(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Release()
	if _, err := conn.Conn().PgConn().Exec(r.Context(), "SET search_path TO "+schema+";"+script+";RESET search_path").ReadAll(); err != nil {
		r.Fatalf("in %s: %v", schema, err)
	}
}

// Q9: the SQL files, run by a migration tool, give the schema that Migrate gives; and a
// table of the oldest version, with its rows, becomes that of the current one.
func TestQ9_AllWaysGiveTheSameSchema(t *testing.T) {
	r := newRig(t)
	r.exec("CREATE SCHEMA code; CREATE SCHEMA files; CREATE SCHEMA oldest")
	if err := outbox.Migrate(t.Context(), r.db, outbox.MigrateOptions{Schema: "code"}); err != nil {
		t.Fatal(err)
	}
	want := r.schema("code")
	if n := strings.Count(want, "\n"); n < 40 || !strings.Contains(want, "weir_outbox_parked.reason") || !strings.Contains(want, "fillfactor=80") {
		t.Fatalf("the schema has %d lines; want all of it:\n%s", n, want)
	}

	names, err := fs.Glob(outbox.Migrations(), "*.sql")
	if err != nil || len(names) == 0 {
		t.Fatalf("Migrations has %v, %v; want files", names, err)
	}
	for i, name := range names {
		text, err := fs.ReadFile(outbox.Migrations(), name)
		if err != nil {
			t.Fatal(err)
		}
		r.in("files", string(text))
		r.in("files", fmt.Sprintf(outbox.MigrationsVersion, i+1))
	}
	if got := r.schema("files"); got != want {
		t.Errorf("the files give another schema than Migrate:\n%s\nwant\n%s", got, want)
	}

	// testdata has the first version as it was released: a table of it may exist.
	oldest, err := os.ReadFile("testdata/0001_outbox.sql")
	if err != nil {
		t.Fatal(err)
	}
	r.in("oldest", string(oldest))
	r.in("oldest", fmt.Sprintf(outbox.MigrationsVersion, 1))
	r.in("oldest", `INSERT INTO weir_outbox (queue, id, input) VALUES ('q', 'old', '"in"')`)
	if err := outbox.Migrate(t.Context(), r.db, outbox.MigrateOptions{Schema: "oldest"}); err != nil {
		t.Fatalf("Migrate of the oldest version = %v; want nil", err)
	}
	if got := r.schema("oldest"); got != want {
		t.Errorf("Migrate of the oldest version gives another schema:\n%s\nwant\n%s", got, want)
	}
	table, err := outbox.NewTable(r.db, outbox.TableOptions{Schema: "oldest"})
	if err != nil {
		t.Fatal(err)
	}
	r.table = table
	relay := r.relay(outbox.RelayOptions{})
	r.eventually("the old row's job", func() bool { return relay.Stats().Submitted == 1 })
}
