package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/internal/proc"
)

// PostgresOptions say how PostgreSQL is started. The zero value is for tests.
type PostgresOptions struct {
	// Bin is the folder with initdb and postgres. Empty: the search path,
	// then the newest in /usr/lib/postgresql, then what Install fetched.
	Bin string

	// Durable leaves fsync, synchronous_commit and full_page_writes on, for
	// a measurement of writes. Otherwise they are off: nothing survives Stop
	// anyhow.
	Durable bool

	// Settings are further server settings, name to value, such as
	// "max_connections": "200". They win over those of Durable.
	Settings map[string]string
}

// Postgres starts PostgreSQL on a free loopback port, with a fresh database
// that trusts everybody. It returns when the server accepts connections: 0.7 s
// on two quiet cores. As root it runs as nobody, since PostgreSQL refuses root.
//
// ctx bounds the start, not the server's life: Stop ends that. A machine
// without PostgreSQL gives a [*MissingError].
func Postgres(ctx context.Context, o PostgresOptions) (*Server, error) {
	bin := o.Bin
	if bin == "" {
		var err error
		if bin, err = findPostgres(); err != nil {
			return nil, err
		}
	} else if !hasPostgres(bin) {
		return nil, missingPostgres()
	}
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	f, err := newFolder(user)
	if err != nil {
		return nil, err
	}
	pg := &postgres{bin: bin, user: user, folder: f, options: o}
	s, err := pg.start(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: start postgres: %w", err), f.remove())
	}
	return s, nil
}

// A postgres is a server on its way up.
type postgres struct {
	bin     string
	user    *syscall.Credential
	folder  *folder
	options PostgresOptions
}

func (pg *postgres) start(ctx context.Context) (*Server, error) {
	initdb := pg.command(ctx, "initdb", "-D", "data", "-U", "postgres", "-A", "trust",
		"--no-sync", "-E", "UTF8", "--locale=C")
	initdb.WaitDelay = time.Second // its children hold the pipe
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// A port is free when we ask and may be taken when the server asks.
	var err error
	for range 5 {
		var s *Server
		if s, err = pg.serve(ctx); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

var errPortTaken = errors.New("the port is taken")

// serve starts the server and waits until it is ready.
func (pg *postgres) serve(ctx context.Context) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(pg.folder.path, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := pg.command(context.Background(), "postgres", pg.args(port)...)
	cmd.Stdout, cmd.Stderr = log, log
	// SIGQUIT ends it at once, but lets it free its shared memory.
	p, err := proc.Start(cmd, syscall.SIGQUIT)
	if err != nil {
		return nil, err
	}
	if err := pg.waitReady(ctx, p); err != nil {
		p.Stop(syscall.SIGQUIT, 10*time.Second)
		return nil, pg.explain(err, log.Name())
	}
	url := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	return newServer("postgres", url, p, pg.folder, syscall.SIGQUIT), nil
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

// waitReady waits until the server says in its pid file that it accepts
// connections, as pg_ctl does.
func (pg *postgres) waitReady(ctx context.Context, p *proc.Process) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		b, _ := os.ReadFile(filepath.Join(pg.folder.path, "data", "postmaster.pid"))
		if lines := strings.Split(string(b), "\n"); len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready" {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Ended():
			return fmt.Errorf("it ended: %w", cmp.Or(p.Wait(), errors.New("exit status 0")))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// explain adds what the server wrote to err.
func (pg *postgres) explain(err error, logName string) error {
	log, _ := os.ReadFile(logName)
	if bytes.Contains(log, []byte("Address already in use")) {
		return fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return fmt.Errorf("%w\n%s", err, log)
}

// command returns a command that runs one of PostgreSQL's programs in the
// folder, as the right user and with nothing of our environment: PGDATA and
// its like would be obeyed.
func (pg *postgres) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(pg.bin, name), args...)
	cmd.Dir = pg.folder.path
	cmd.Env = []string{"PATH=" + pg.bin + ":/usr/bin:/bin", "LC_ALL=C", "HOME=" + pg.folder.path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: pg.user}
	return cmd
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
