// Package redistest starts temporary Redis and Valkey servers for tests, on loopback
// and free ports, each in a separate folder. They end with the test.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// The environment variables that configure the engines of tests.
const (
	requiredVar = "WEIR_TEST_ENGINES" // "required": the engines must be installed
	redisVar    = "WEIR_TEST_REDIS_SERVER"
	valkeyVar   = "WEIR_TEST_VALKEY_SERVER"
)

// startTime is how long a server may take until it responds.
const startTime = 10 * time.Second

// Redis returns the path of redis-server: the one in WEIR_TEST_REDIS_SERVER, or the
// one in PATH. Without one the test fails if engines are required, and is skipped
// otherwise.
func Redis(t testing.TB) string {
	t.Helper()
	path, err := binary(redisVar, "redis-server")
	switch {
	case err == nil:
	case os.Getenv(requiredVar) == "required":
		t.Fatalf("%s=required, but there is no redis-server: %v", requiredVar, err)
	default:
		t.Skipf("no redis-server: %v", err)
	}
	return path
}

// Valkey returns the path of valkey-server, or "" if there is none, because not every
// machine has it.
func Valkey() string {
	path, err := binary(valkeyVar, "valkey-server")
	if err != nil {
		return ""
	}
	return path
}

func binary(variable, name string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		name = path
	}
	return exec.LookPath(name)
}

// A Server is a server process. Its methods fail the test on errors.
type Server struct {
	Addr string // host:port, the same after a Restart

	t    testing.TB
	path string
	args []string
	tls  bool

	mu   sync.Mutex
	cmd  *exec.Cmd     // guarded by mu
	done chan struct{} // guarded by mu: closed when cmd has ended
}

// Start starts a server with the program at path, with arguments as in its
// configuration file: "--maxmemory", "3mb". It saves nothing to disk.
func Start(t testing.TB, path string, args ...string) *Server {
	t.Helper()
	s := &Server{t: t, path: path, Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.args = append([]string{
		"--bind", "127.0.0.1", "--port", port, "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--loglevel", "warning",
	}, args...)
	s.run()
	t.Cleanup(s.Kill)
	s.await()
	return s
}

// StartTLS starts a server that speaks TLS only, with the files of a
// certificate, its key and its authority.
func StartTLS(t testing.TB, path, cert, key, ca string) *Server {
	t.Helper()
	s := &Server{t: t, path: path, tls: true, Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(t)))}
	_, port, _ := net.SplitHostPort(s.Addr)
	s.args = []string{
		"--bind", "127.0.0.1", "--port", "0", "--tls-port", port, "--dir", t.TempDir(), "--save", "",
		"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no",
	}
	s.run()
	t.Cleanup(s.Kill)
	s.await()
	return s
}

func (s *Server) run() {
	cmd := exec.Command(s.path, s.args...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = ownGroup()
	dieWithParent(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { // ends with the process, which Cleanup ends
		defer close(done)
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "signal") {
			fmt.Fprintf(os.Stderr, "%s: %v: %s\n", s.path, err, out.String())
		}
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.done = cmd, done
}

// await waits until the server accepts connections.
func (s *Server) await() {
	s.t.Helper()
	end := time.Now().Add(startTime)
	for {
		conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
		if err == nil {
			_ = conn.Close()
			if s.tls || s.ping() {
				return
			}
		}
		if time.Now().After(end) {
			s.t.Fatalf("%s does not respond on %s: %v", s.path, s.Addr, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *Server) ping() bool {
	_, err := s.try("PING")
	return err == nil
}

// Kill ends the process, if it is running, and waits for its end.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd, done := s.cmd, s.done
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // it may have ended already
	<-done
}

// Restart kills the server, if it is running, and starts it again, empty.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.run()
	s.await()
}

// Pause stops the process without ending it, like a hung machine.
func (s *Server) Pause() { s.signal(pause) }

// Resume ends Pause.
func (s *Server) Resume() { s.signal(resume) }

func (s *Server) signal(sig os.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Fatalf("%v for a server that is not running", sig)
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends a command on a separate connection.
func (s *Server) Do(command ...string) rueidis.RedisMessage {
	s.t.Helper()
	m, err := s.try(command...)
	if err != nil && !rueidis.IsRedisNil(err) {
		s.t.Fatalf("%v: %v", command, err)
	}
	return m
}

// Text is Do for commands that return text.
func (s *Server) Text(command ...string) string {
	s.t.Helper()
	m := s.Do(command...)
	if m.IsNil() {
		return ""
	}
	text, err := m.ToString()
	if err != nil {
		s.t.Fatalf("%v: %v", command, err)
	}
	return strings.TrimPrefix(text, "txt:") // RESP3 adds the kind of text
}

// Int is Do for commands that return a number.
func (s *Server) Int(command ...string) int64 {
	s.t.Helper()
	m := s.Do(command...)
	n, err := m.AsInt64()
	if err != nil {
		s.t.Fatalf("%v: %v", command, err)
	}
	return n
}

// Texts is Do for commands that return several texts.
func (s *Server) Texts(command ...string) []string {
	s.t.Helper()
	m := s.Do(command...)
	texts, err := m.AsStrSlice()
	if err != nil {
		s.t.Fatalf("%v: %v", command, err)
	}
	return texts
}

func (s *Server) try(command ...string) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
		PipelineMultiplex: -1, ClientName: "redistest",
	})
	if client != nil {
		defer client.Close()
	}
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return client.Do(ctx, client.B().Arbitrary(command...).Build()).ToMessage()
}

// Calls returns how often each command was called, including calls inside scripts,
// since the last CONFIG RESETSTAT.
func (s *Server) Calls() map[string]int {
	s.t.Helper()
	calls := make(map[string]int)
	for line := range strings.Lines(s.Text("INFO", "commandstats")) {
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(stats, ",")
		n, err := strconv.Atoi(number)
		if err != nil {
			s.t.Fatalf("INFO commandstats: %q", line)
		}
		calls[name] = n
	}
	return calls
}

// freePort returns a port on which nothing listens. Another process could take it
// before it is used, but this has not been observed.
func freePort(t testing.TB) int {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := l.Addr().(*net.TCPAddr).Port
		_ = l.Close() // only its port was needed
		if _, given := givenPorts.LoadOrStore(port, true); !given {
			return port
		}
	}
}

// givenPorts are the ports that this process has given out: the system can name one
// again before the server that it was meant for listens there.
var givenPorts sync.Map

// StartSentinel starts a Sentinel that monitors a master under a name, and returns
// when it knows the replicas.
func StartSentinel(t testing.TB, path, name string, master *Server, replicas int) *Server {
	t.Helper()
	host, port, _ := net.SplitHostPort(master.Addr)
	own := strconv.Itoa(freePort(t))
	config := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\nport %s\ndir %s\nsentinel monitor %s %s %s 1\n"+
		"sentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 10000\n",
		own, filepath.Dir(config), name, host, port, name, name)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, path: path, Addr: net.JoinHostPort("127.0.0.1", own), args: []string{config, "--sentinel"}}
	s.run()
	t.Cleanup(s.Kill)
	s.await()
	for end := time.Now().Add(2 * startTime); ; time.Sleep(50 * time.Millisecond) {
		m := s.Do("SENTINEL", "REPLICAS", name)
		if all, err := m.ToArray(); err == nil && len(all) == replicas {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("the Sentinel does not know %d replicas", replicas)
		}
	}
}
