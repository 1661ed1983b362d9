package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Server is a PostgreSQL of one test, in a separate folder. Its methods may be
// called by one goroutine at a time.
type Server struct {
	t    testing.TB
	bin  string // the folder with its programs
	dir  string
	port int
	cmd  *exec.Cmd // nil while it does not run
}

// patience bounds what PostgreSQL may take for a start or a stop.
const patience = 30 * time.Second

// Start starts a server with the programs of the shared one. Commits reach the operating
// system before they are acknowledged, but not the disk: that is enough for a killed
// process.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, bin: binaries(t)}
	var err error
	if s.dir, err = os.MkdirTemp("", "weir-outbox-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(s.dir)
	})
	if os.Getuid() == 0 {
		if err := os.Chown(s.dir, unprivileged, unprivileged); err != nil {
			t.Fatal(err)
		}
	}
	cmd := s.command("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	s.Restart()
	return s
}

// binaries returns the folder of the shared server's programs.
func binaries(t testing.TB) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), URL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var bin string
	if err := conn.QueryRow(t.Context(), "SELECT setting FROM pg_config WHERE name = 'BINDIR'").Scan(&bin); err != nil {
		t.Fatal(err)
	}
	return bin
}

// unprivileged is the user that runs PostgreSQL for root.
const unprivileged = 65534

func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(s.path(program), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=" + s.dir}
	cmd.SysProcAttr = processAttributes()
	return cmd
}

// URL returns the address, which stays the same.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// Kill ends the server at once, as a crash does: the next start recovers from its log.
func (s *Server) Kill() { s.end(syscall.SIGQUIT) }

func (s *Server) end(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Errorf("pgtest: %v", err)
	}
	_ = s.cmd.Wait() // the error only reports the signal
	s.cmd = nil
}

// Restart starts the server with its data; a running one is killed first. It returns
// when the server accepts connections.
func (s *Server) Restart() {
	s.Kill()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := s.command("postgres", "-D", "data", "-p", fmt.Sprint(s.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "max_connections=200")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	for end := time.Now().Add(patience); ; {
		b, _ := os.ReadFile(filepath.Join(s.dir, "data", "postmaster.pid"))
		lines := strings.Split(string(b), "\n")
		if len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready" && strings.TrimSpace(lines[0]) == fmt.Sprint(cmd.Process.Pid) {
			return
		}
		if time.Now().After(end) {
			text, _ := os.ReadFile(log.Name())
			s.t.Fatalf("pgtest: PostgreSQL is not ready after %v:\n%s", patience, text)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// Snapshot stops the server, copies its data, and starts it again.
func (s *Server) Snapshot() {
	s.end(syscall.SIGINT)
	s.copy("data", "snapshot")
	s.Restart()
}

// Restore kills the server, and starts it with the data of the last Snapshot.
func (s *Server) Restore() {
	s.Kill()
	s.copy("snapshot", "data")
	s.Restart()
}

func (s *Server) copy(from, to string) {
	if err := os.RemoveAll(filepath.Join(s.dir, to)); err != nil {
		s.t.Fatal(err)
	}
	if out, err := s.command("cp", "-a", from, to).CombinedOutput(); err != nil {
		s.t.Fatalf("cp: %v\n%s", err, out)
	}
}

// path returns the file of one of PostgreSQL's programs, or of the system's.
func (s *Server) path(program string) string {
	if file := filepath.Join(s.bin, program); exists(file) {
		return file
	}
	return program
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
