package engine_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/weir-go/weir/lab/engine"
)

func start(t *testing.T, o engine.PostgresOptions) *engine.Server {
	t.Helper()
	need(t, "postgres")
	pg, err := engine.Postgres(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pg.Stop(); err != nil {
			t.Error(err)
		}
	})
	return pg
}

// show returns the value of a server setting.
func show(t *testing.T, pg *engine.Server, setting string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	var v string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPostgresSettings(t *testing.T) {
	tests := []struct {
		name    string
		options engine.PostgresOptions
		want    map[string]string
	}{
		{"zero", engine.PostgresOptions{}, map[string]string{
			"fsync": "off", "server_encoding": "UTF8", "listen_addresses": "127.0.0.1",
		}},
		{"durable", engine.PostgresOptions{
			Durable:  true,
			Settings: map[string]string{"max_connections": "7"},
		}, map[string]string{
			"fsync": "on", "full_page_writes": "on", "max_connections": "7",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pg := start(t, tt.options)
			for setting, want := range tt.want {
				if got := show(t, pg, setting); got != want {
					t.Errorf("%s = %q; want %q", setting, got, want)
				}
			}
		})
	}
}

func TestPostgresStopLeavesNothing(t *testing.T) {
	dir := temp(t)
	pg := start(t, engine.PostgresOptions{})
	if n := len(entries(t, dir)); n != 1 {
		t.Errorf("%d folders while it runs; want 1", n)
	}
	for range 2 {
		if err := pg.Stop(); err != nil {
			t.Errorf("Stop = %v; want nil", err)
		}
	}
	if !gone(pg.Pid()) {
		t.Errorf("process %d still runs", pg.Pid())
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	host := strings.TrimPrefix(pg.URL, "postgres://postgres@")
	if c, err := net.Dial("tcp", host[:strings.Index(host, "/")]); err == nil {
		c.Close()
		t.Error("the port still answers")
	}
}

func TestPostgresThreeAtOnce(t *testing.T) {
	need(t, "postgres")
	var wg sync.WaitGroup
	urls := make([]string, 3)
	for i := range urls {
		wg.Go(func() {
			pg, err := engine.Postgres(t.Context(), engine.PostgresOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			defer pg.Stop()
			urls[i] = pg.URL
			show(t, pg, "port")
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, url := range urls {
		if seen[url] {
			t.Errorf("two servers at %s", url)
		}
		seen[url] = true
	}
}

func TestPostgresKilledProgramLeavesNothing(t *testing.T) {
	dir := temp(t)
	if pid := killedProgram(t, "postgres"); !gone(pid) {
		t.Errorf("process %d still runs", pid)
	}
	// The killed program could not remove the folder; the next start does.
	if left := entries(t, dir); len(left) != 1 {
		t.Errorf("left behind by the killed program: %v; want one folder", left)
	}
	start(t, engine.PostgresOptions{}).Stop()
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind after the next start: %v", left)
	}
}

func TestPostgresStartLeavesARunningServersFolder(t *testing.T) {
	temp(t)
	first := start(t, engine.PostgresOptions{})
	start(t, engine.PostgresOptions{})
	if got := show(t, first, "fsync"); got != "off" {
		t.Errorf("fsync = %q; want off", got)
	}
}

func TestPostgresStartEndsWithItsContext(t *testing.T) {
	need(t, "postgres")
	dir := temp(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if pg, err := engine.Postgres(ctx, engine.PostgresOptions{}); err == nil {
		t.Errorf("Postgres = %s, nil; want an error", pg.URL)
		pg.Stop()
	}
	if left := entries(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPostgresMissingNamesThePackage(t *testing.T) {
	_, err := engine.Postgres(t.Context(), engine.PostgresOptions{Bin: t.TempDir()})
	if !errors.Is(err, engine.ErrMissing) || !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("Postgres = %v; want ErrMissing and how to install it", err)
	}
}

func TestPostgresFailedStartSaysWhatTheServerSaid(t *testing.T) {
	need(t, "postgres")
	dir := temp(t)
	o := engine.PostgresOptions{Settings: map[string]string{"no_such_setting": "1"}}
	if _, err := engine.Postgres(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("Postgres = %v; want the server's own message", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
