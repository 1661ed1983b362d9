package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/internal/proc"
)

// A home is an engine's folder and the user that it runs as (nil: the current user).
type home struct {
	*folder
	user *syscall.Credential
}

// command returns a command that runs in the folder, as the engine's user, and
// without our environment, because the engine would follow variables such as PGDATA.
func (h home) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = h.path
	cmd.Env = []string{"PATH=" + filepath.Dir(path) + ":/usr/bin:/bin", "LC_ALL=C", "HOME=" + h.path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: h.user}
	return cmd
}

// write writes a file for the engine.
func (h home) write(name, text string) error {
	return os.WriteFile(filepath.Join(h.path, name), []byte(text), 0o644)
}

// writeAll writes files for the engine, by name.
func (h home) writeAll(files map[string][]byte) error {
	for name, text := range files {
		if err := h.write(name, string(text)); err != nil {
			return err
		}
	}
	return nil
}

// A launch describes how to start an engine.
type launch struct {
	name  string
	url   string         // %d stands for the first port
	ports int            // number of ports that the engine listens on
	fixed []int          // required ports; nil: any free ports
	quit  syscall.Signal // ends it at once, including its children

	// prepare, if not nil, runs once, before the first try.
	prepare func(ctx context.Context, h home) error

	// command returns the command to run, for each try.
	command func(h home, ports []int) (*exec.Cmd, error)

	// ready reports whether the engine accepts requests. It is polled every 10 ms.
	ready func(ctx context.Context, h home, port int) bool
}

// start starts the engine in its own folder and waits until it is ready.
func (l launch) start(ctx context.Context) (*Server, error) {
	user, err := unprivileged()
	if err != nil {
		return nil, err
	}
	f, err := newFolder(user)
	if err != nil {
		return nil, err
	}
	s, err := l.startIn(ctx, home{folder: f, user: user})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: start %s: %w", l.name, err), f.remove())
	}
	return s, nil
}

func (l launch) startIn(ctx context.Context, h home) (*Server, error) {
	if l.prepare != nil {
		if err := l.prepare(ctx, h); err != nil {
			return nil, err
		}
	}
	// A port that was free when we checked may be taken by the time the engine binds
	// it.
	var err error
	for range 5 {
		var s *Server
		if s, err = l.try(ctx, h); err == nil {
			return s, nil
		}
		if !errors.Is(err, errPortTaken) {
			return nil, err
		}
	}
	return nil, err
}

var errPortTaken = errors.New("the port is taken")

// try starts the engine and waits until it is ready.
func (l launch) try(ctx context.Context, h home) (*Server, error) {
	ports, err := l.fixed, error(nil)
	if ports == nil {
		ports, err = FreePorts(l.ports)
	}
	if err != nil {
		return nil, err
	}
	cmd, err := l.command(h, ports)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(h.path, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	p, err := proc.Start(cmd, l.quit)
	if err != nil {
		return nil, err
	}
	if err := l.wait(ctx, h, p, ports[0]); err != nil {
		p.Stop(l.quit, 10*time.Second)
		return nil, explain(err, log.Name())
	}
	l.fixed = ports
	return newServer(l, p, h.folder), nil
}

// wait waits until the engine is ready.
func (l launch) wait(ctx context.Context, h home, p *proc.Process, port int) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !l.ready(ctx, h, port) {
		select {
		case <-tick.C:
		case <-p.Ended():
			return fmt.Errorf("it ended: %w", cmp.Or(p.Wait(), errors.New("exit status 0")))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// explain adds the engine's output to err.
func explain(err error, logName string) error {
	log, _ := os.ReadFile(logName)
	for _, words := range portTaken {
		if bytes.Contains(log, []byte(words)) {
			return fmt.Errorf("%w: %w", errPortTaken, err)
		}
	}
	const most = 8 << 10 // the reason is in the last lines
	return fmt.Errorf("%w\n%s", err, log[max(0, len(log)-most):])
}

// portTaken are the engines' messages about a port in use.
var portTaken = []string{
	"Address already in use",       // most
	"address already in use",       // Caddy
	"is in use by another process", // Cassandra, of its storage port
	"Failed to bind port",          // Cassandra, of its native port
}

// FreePorts returns n different loopback ports that were free a moment ago.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // once the other ports are found
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
