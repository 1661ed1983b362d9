package fromasynq

import (
	"context"
	"strings"
	"testing"

	"github.com/weir-go/weir/examples/migrate/internal/front"
	"github.com/weir-go/weir/examples/migrate/internal/mail"
	"github.com/weir-go/weir/lab/engine"
)

func TestBefore(t *testing.T) {
	front.Need(t, "redis")
	redis, err := engine.Start(context.Background(), "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Stop() })
	var s mail.Server
	b, err := NewBefore(strings.TrimPrefix(redis.URL, "redis://"), s.Send)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
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
