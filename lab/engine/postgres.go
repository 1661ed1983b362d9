package engine

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// PostgresOptions configure PostgreSQL. The zero value is for tests.
type PostgresOptions struct {
	// Bin is the folder with initdb and postgres. Empty: the search path, then the
	// newest in /usr/lib/postgresql, then the one that Install fetched.
	Bin string

	// Durable leaves fsync, synchronous_commit and full_page_writes on, for a
	// measurement of writes. Otherwise they are off, because nothing survives Stop
	// anyway.
	Durable bool

	// Settings are further server settings, name to value, such as "max_connections":
	// "200". They take precedence over those of Durable.
	Settings map[string]string
}

// Postgres starts PostgreSQL on a free loopback port, with a fresh database that
// accepts all connections without a password. It returns when the server accepts
// connections: after 0.7 s on two idle cores. As root it runs as the user nobody,
// because PostgreSQL refuses root.
//
// ctx bounds only the start; the server runs until Stop. The error is a
// [*MissingError] on a machine without PostgreSQL.
func Postgres(ctx context.Context, o PostgresOptions) (*Server, error) {
	bin := o.Bin
	if bin == "" {
		var err error
		if bin, err = findPostgres(); err != nil {
			return nil, err
		}
	} else if !hasPostgres(bin) {
		return nil, missing("postgres")
	}
	pg := &postgres{bin: bin, options: o}
	return launch{
		name:    "postgres",
		url:     "postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable",
		ports:   1,
		quit:    syscall.SIGQUIT, // ends at once, but frees the shared memory
		prepare: pg.initdb,
		command: pg.command,
		ready:   pg.ready,
	}.start(ctx)
}

// A postgres is a server that is starting.
type postgres struct {
	bin     string
	options PostgresOptions
}

func (pg *postgres) initdb(ctx context.Context, h home) error {
	cmd := h.command(ctx, filepath.Join(pg.bin, "initdb"), "-D", "data", "-U", "postgres", "-A", "trust",
		"--no-sync", "-E", "UTF8", "--locale=C")
	cmd.WaitDelay = time.Second // its children keep the pipe open
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (pg *postgres) command(h home, ports []int) (*exec.Cmd, error) {
	return h.command(context.Background(), filepath.Join(pg.bin, "postgres"), pg.args(ports[0])...), nil
}

func (pg *postgres) args(port int) []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"unix_socket_directories": "",
	}
	if !pg.options.Durable {
		settings["fsync"] = "off"
		settings["synchronous_commit"] = "off"
		settings["full_page_writes"] = "off"
	}
	maps.Copy(settings, pg.options.Settings)
	args := []string{"-D", "data", "-p", strconv.Itoa(port)}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// ready reports whether the server's pid file says that it accepts connections, like
// pg_ctl.
func (pg *postgres) ready(_ context.Context, h home, _ int) bool {
	b, _ := os.ReadFile(filepath.Join(h.path, "data", "postmaster.pid"))
	lines := strings.Split(string(b), "\n")
	return len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready"
}
