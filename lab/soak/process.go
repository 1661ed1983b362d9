package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weir-go/weir/lab/engine"
	"github.com/weir-go/weir/lab/internal/proc"
	"github.com/weir-go/weir/lab/internal/resp"
)

// A process is a process that can be killed, stopped and restarted. Its output goes
// to a file.
type process struct {
	name string
	log  string // file
	cmd  func() *exec.Cmd
	// ready reports whether the process serves. It is polled until it does.
	ready func(ctx context.Context) bool

	mu    sync.Mutex
	proc  *proc.Process // guarded by mu; nil if it does not run
	lives int           // guarded by mu: how often it was started
}

// startLimit is how long a process may take to become ready. The machine is busy.
const startLimit = time.Minute

// stopGrace is how long a process has to end after SIGTERM.
const stopGrace = 20 * time.Second

func (p *process) start(ctx context.Context) error {
	cmd := p.cmd()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	started, err := proc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("soak: start %s: %w", p.name, err)
	}
	p.mu.Lock()
	p.proc = started
	p.lives++
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for !p.ready(ctx) {
		select {
		case <-started.Ended():
			return fmt.Errorf("soak: %s ended while it started; see %s", p.name, p.log)
		default:
		}
		if !rest(ctx, 50*time.Millisecond) {
			return fmt.Errorf("soak: %s is not ready after %v; see %s", p.name, startLimit, p.log)
		}
	}
	return nil
}

// pid returns the process id, 0 while it does not run.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return 0
	}
	return p.proc.Pid()
}

func (p *process) life() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lives
}

func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.proc == nil {
		return nil
	}
	return p.proc.SignalGroup(sig)
}

// kill ends the process as a power cut would, if it runs.
func (p *process) kill() {
	p.mu.Lock()
	ends := p.proc
	p.proc = nil
	p.mu.Unlock()
	if ends == nil {
		return
	}
	ends.SignalGroup(syscall.SIGCONT) //nolint:errcheck // it has ended
	ends.SignalGroup(syscall.SIGKILL) //nolint:errcheck // as above
	<-ends.Ended()
}

// stop signals the process to end, and reports whether it did.
func (p *process) stop() bool {
	p.mu.Lock()
	ends := p.proc
	p.proc = nil
	p.mu.Unlock()
	if ends == nil {
		return true
	}
	ends.SignalGroup(syscall.SIGCONT) //nolint:errcheck // it has ended
	began := time.Now()
	ends.Stop(syscall.SIGTERM, stopGrace)
	return time.Since(began) < stopGrace
}

// connects reports whether address accepts connections.
func connects(ctx context.Context, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// A redis is the engine, on a port that it keeps across restarts.
type redis struct {
	process
	addr, dir string
	snapshots int
}

func newRedis(dir string) (*redis, error) {
	if err := engine.Installed("redis"); err != nil {
		return nil, err
	}
	ports, err := engine.FreePorts(1)
	if err != nil {
		return nil, err
	}
	r := &redis{addr: fmt.Sprintf("127.0.0.1:%d", ports[0]), dir: filepath.Join(dir, "redis")}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return nil, err
	}
	r.process = process{
		name: "redis", log: filepath.Join(dir, "redis.log"),
		cmd: func() *exec.Cmd {
			cmd, err := engine.Command(context.Background(), "redis", "--port", fmt.Sprint(ports[0]), "--bind", "127.0.0.1",
				"--dir", r.dir, "--save", "", "--appendonly", "no", "--maxmemory", "256mb")
			if err != nil { // the port was free a moment ago
				panic(err)
			}
			return cmd
		},
		ready: func(ctx context.Context) bool {
			answer, err := resp.Ask(ctx, r.addr, "PING")
			return err == nil && fmt.Sprint(answer) == "PONG"
		},
	}
	return r, nil
}

// snapshot saves a copy of its current data.
func (r *redis) snapshot(ctx context.Context) error {
	if _, err := resp.Ask(ctx, r.addr, "SAVE"); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "dump.rdb"))
	if err != nil {
		return err
	}
	r.snapshots++
	return os.WriteFile(filepath.Join(r.dir, "old.rdb"), b, 0o644)
}

// reload restarts it, with the last snapshot or empty.
func (r *redis) reload(ctx context.Context, old bool) error {
	r.kill()
	dump := filepath.Join(r.dir, "dump.rdb")
	os.Remove(dump) //nolint:errcheck // there may be none
	if old && r.snapshots > 0 {
		b, err := os.ReadFile(filepath.Join(r.dir, "old.rdb"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(dump, b, 0o644); err != nil {
			return err
		}
	}
	return r.start(ctx)
}

// newCluster returns the servers of a NATS cluster and their URLs for clients.
func newCluster(dir, program string) (nodes []*process, urls []string, err error) {
	const size = 3
	ports, err := engine.FreePorts(2 * size)
	if err != nil {
		return nil, nil, err
	}
	var routes []string
	for _, p := range ports[size:] {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	for i := range size {
		node := natsNode{Name: fmt.Sprintf("n%d", i), Dir: filepath.Join(dir, fmt.Sprintf("nats%d", i)), Port: ports[i], Route: ports[size+i], Routes: routes}
		text, err := json.Marshal(node)
		if err != nil {
			return nil, nil, err
		}
		addr := fmt.Sprintf("127.0.0.1:%d", node.Port)
		urls = append(urls, "nats://"+addr)
		nodes = append(nodes, &process{
			name: node.Name, log: node.Dir + ".log",
			cmd:   func() *exec.Cmd { return self(program, roleNATS, string(text)) },
			ready: func(ctx context.Context) bool { return connects(ctx, addr) },
		})
	}
	return nodes, urls, nil
}

// self returns the command that runs this program in a role.
func self(program, as string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "WEIR_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, role+"="+as)
	return cmd
}
