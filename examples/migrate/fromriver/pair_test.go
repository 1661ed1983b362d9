package fromriver

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/weir-go/weir/examples/migrate/internal/front"
	"github.com/weir-go/weir/examples/migrate/internal/mail"
	"github.com/weir-go/weir/lab/engine"
)

func TestBefore(t *testing.T) {
	front.Need(t, "postgres")
	ctx := context.Background()
	postgres, err := engine.Start(ctx, "postgres")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { postgres.Stop() })
	pool, err := pgxpool.New(ctx, postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	var s mail.Server
	b, err := NewBefore(ctx, pool, s.Send)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close(ctx) })
	mail.Run(t, &s, b)
}

func TestAfter(t *testing.T) {
	var s mail.Server
	a, err := NewAfter(t.Context(), mail.Store(t), s.Send)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(context.Background()) })
	mail.Run(t, &s, a)
}
