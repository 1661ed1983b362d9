package pgtable_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/weir-go/weir/app/demo/pgtable"
	"github.com/weir-go/weir/app/demo/source"
	"github.com/weir-go/weir/app/internal/pgtest"
)

func server(t *testing.T, connURL string) pgtable.Server {
	t.Helper()
	s, err := pgtable.Parse(connURL)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// gone fails the test if the schema is still there.
func gone(t *testing.T, schema string) {
	t.Helper()
	if n := pgtest.Query(t, "SELECT count(*)::text FROM pg_namespace WHERE nspname = $1", schema); n != "0" {
		t.Errorf("schema %s is left behind", schema)
	}
}

func TestTableFromCreateToDrop(t *testing.T) {
	const rows, keys = 120_000, 7
	var schema string
	var progress []int
	table, err := pgtable.Create(t.Context(), server(t, pgtest.URL(t)), pgtable.Options{
		Rows: rows, Keys: keys,
		Created:  func(s string) { schema = s },
		Progress: func(n int) { progress = append(progress, n) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if schema != table.Schema() || !strings.HasPrefix(schema, pgtable.SchemaPrefix) {
		t.Errorf("Created got %q, Schema is %q; want one name that begins with %s", schema, table.Schema(), pgtable.SchemaPrefix)
	}
	if len(progress) != 3 || progress[2] != rows {
		t.Errorf("Progress got %v; want three numbers up to %d", progress, rows)
	}

	var m source.Meter
	orders, seen := 0, map[string]bool{}
	for key := range keys {
		figures, err := table.Load(t.Context(), key, &m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := table.Load(t.Context(), key, &m)
		if err != nil || string(again) != string(figures) {
			t.Errorf("Load(%d) again = %s, %v; want %s", key, again, err, figures)
		}
		var f struct{ Shop, Orders, Median, P99 int }
		if err := json.Unmarshal(figures, &f); err != nil {
			t.Fatalf("Load(%d) = %s: %v", key, figures, err)
		}
		if f.Shop != key || f.Median <= 0 || f.P99 < f.Median {
			t.Errorf("Load(%d) = %s; want that shop's figures", key, figures)
		}
		orders += f.Orders
		seen[string(figures)] = true
	}
	if orders != rows || len(seen) != keys {
		t.Errorf("%d orders, %d different answers; want %d, %d", orders, len(seen), rows, keys)
	}
	if got, want := m.Count(), (source.Count{Calls: 2 * keys, Most: 1}); got != want {
		t.Errorf("Count = %+v; want %+v", got, want)
	}

	if err := table.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone(t, schema)
	if err := table.Drop(t.Context()); err != nil {
		t.Errorf("Drop again = %v; want nil", err)
	}
}

func TestCreateInterruptedLeavesNothing(t *testing.T) {
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	var schema string
	_, err := pgtable.Create(ctx, server(t, pgtest.URL(t)), pgtable.Options{
		Rows: 1_000_000, Keys: 7,
		Created:  func(s string) { schema = s },
		Progress: func(int) { cancel(interrupted) },
	})
	if !errors.Is(err, interrupted) {
		t.Errorf("Create = %v; want %v", err, interrupted)
	}
	gone(t, schema)
}

func TestLoadEndsWithItsContext(t *testing.T) {
	table, err := pgtable.Create(t.Context(), server(t, pgtest.URL(t)), pgtable.Options{Rows: 1000, Keys: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := table.Drop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	left := errors.New("left")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(left)
	var m source.Meter
	if _, err := table.Load(ctx, 0, &m); !errors.Is(err, left) {
		t.Errorf("Load = %v; want %v", err, left)
	}
}

func TestCreateRefused(t *testing.T) {
	admin := pgtest.URL(t)
	const role, password = "weir_test_reader", "s3cret"
	pgtest.Exec(t, "DROP ROLE IF EXISTS "+role)
	pgtest.Exec(t, "CREATE ROLE "+role+" LOGIN PASSWORD '"+password+"'")
	defer pgtest.Exec(t, "DROP ROLE "+role)

	as := func(change func(*url.URL)) string {
		u, err := url.Parse(admin)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	for _, tt := range []struct {
		name, url string
		want      []string
	}{
		{"may not create", as(func(u *url.URL) { u.User = url.UserPassword(role, password) }),
			[]string{"refuses to create a schema", "permission denied", "GRANT CREATE ON DATABASE", `"` + role + `"`}},
		{"no such role", as(func(u *url.URL) { u.User = url.UserPassword("weir_nobody", password) }),
			[]string{"refuses to connect", "weir_nobody"}},
		{"no such database", as(func(u *url.URL) { u.Path = "/weir_nothing" }),
			[]string{"refuses to connect", `"weir_nothing" does not exist`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := pgtable.Create(t.Context(), server(t, tt.url), pgtable.Options{Rows: 1000, Keys: 1})
			if err == nil {
				t.Fatal("Create succeeds; want a refusal")
			}
			for _, part := range append(tt.want, server(t, tt.url).Address()) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("Create = %v; want it to say %q", err, part)
				}
			}
			if strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), password) {
				t.Errorf("Create = %q; want one line without the password", err)
			}
		})
	}
}
