package pgtest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer starts a PgBouncer with transaction pooling in front of the database at url,
// and returns the database's URL through it. The program is WEIR_TEST_PGBOUNCER, or the
// one on the search path. Without it the test is skipped, unless engines are required and
// pgbouncer is not named in WEIR_TEST_WITHOUT.
func Bouncer(t testing.TB, url string) string {
	t.Helper()
	program := bouncerProgram(t)
	behind, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	dir, err := os.MkdirTemp("", "weir-bouncer-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=%s port=%d user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = extra_float_digits
`, behind.Host, behind.Port, behind.User, port)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // it may run as another user
		t.Fatal(err)
	}
	cmd := exec.Command(program, file)
	cmd.Dir, cmd.SysProcAttr = dir, processAttributes()
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		_ = cmd.Wait() // the error only reports the signal
		if t.Failed() {
			t.Logf("pgbouncer:\n%s", said.String())
		}
	})
	through := bouncerURL(t, url, port)
	for end := time.Now().Add(patience); ; {
		conn, err := pgx.Connect(t.Context(), through)
		if err == nil {
			conn.Close(context.Background())
			return through
		}
		if time.Now().After(end) {
			t.Fatalf("pgtest: PgBouncer is not ready after %v: %v", patience, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// bouncerURL returns url with another port, and without prepared statements: with
// transaction pooling, PgBouncer before 1.21 does not have them.
func bouncerURL(t testing.TB, text string, port int) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	q := u.Query()
	q.Set("default_query_exec_mode", "exec")
	u.RawQuery = q.Encode()
	return u.String()
}

func bouncerProgram(t testing.TB) string {
	t.Helper()
	without := strings.Split(os.Getenv("WEIR_TEST_WITHOUT"), ",")
	for _, name := range []string{cmp.Or(os.Getenv("WEIR_TEST_PGBOUNCER"), "pgbouncer"), "/usr/sbin/pgbouncer"} {
		if file, err := exec.LookPath(name); err == nil {
			return file
		}
	}
	if os.Getenv(requiredVar) == "required" && !slices.Contains(without, "pgbouncer") {
		t.Fatal("WEIR_TEST_ENGINES=required, but pgbouncer is missing")
	}
	t.Skip("WITHOUT pgbouncer, which Debian has in the package pgbouncer")
	return ""
}
