package reports_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
)

// An outage that fails 2,000 calls per second is logged ten times per second, with the
// number of the others.
func TestSlogObserverLogsAnOutageTenTimesASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		down := errors.New("the database is down")
		g := weir.Must(weir.New(func(context.Context, int) (int, error) { return 0, down },
			weir.Options{Name: "users", TTL: time.Minute, Observer: weir.SlogObserver(slog.New(slog.NewTextHandler(&b, nil)))}))
		for i := range 6000 {
			if _, err := g.Get(t.Context(), i); !errors.Is(err, down) {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Microsecond)
		}
		_ = g.Close(t.Context())
		got := strings.Split(strings.TrimSpace(b.String()), "\n")
		if len(got) != 30 || !strings.Contains(got[10], "left_out=1990") {
			t.Errorf("%d lines, the eleventh %s; want 30, and 1990 left out", len(got), got[min(10, len(got)-1)])
		}
	})
}
