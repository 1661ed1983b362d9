package notify_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/app/proxy/notify"
)

// socket opens a manager's socket.
func socket(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func received(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 4096)
	c.SetReadDeadline(time.Now().Add(30 * time.Second))
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func env(pairs map[string]string) func(string) string {
	return func(name string) string { return pairs[name] }
}

func TestMessages(t *testing.T) {
	names := map[string]string{"path": filepath.Join(t.TempDir(), "s")}
	names["abstract"] = "@weir-notify-test-" + strconv.Itoa(os.Getpid())
	for kind, name := range names {
		t.Run(kind, func(t *testing.T) {
			c := socket(t, name)
			m := notify.Find(env(map[string]string{"NOTIFY_SOCKET": name}))
			for _, tt := range []struct {
				send func() error
				want string
			}{
				{func() error { return m.Ready("1 listener\nready") }, "READY=1\nSTATUS=1 listener; ready"},
				{func() error { return m.Stopping("draining") }, "STOPPING=1\nSTATUS=draining"},
				{m.Alive, "WATCHDOG=1"},
			} {
				if err := tt.send(); err != nil {
					t.Fatal(err)
				}
				if got := received(t, c); got != tt.want {
					t.Errorf("sent %q; want %q", got, tt.want)
				}
			}
		})
	}
}

// The manager uses the clock to match a Ready with this reload rather than an earlier
// one.
func TestReloadingTellsTheMonotonicClock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "s")
	c := socket(t, name)
	m := notify.Find(env(map[string]string{"NOTIFY_SOCKET": name}))
	var readings []int64
	for range 2 {
		if err := m.Reloading(); err != nil {
			t.Fatal(err)
		}
		first, rest, _ := strings.Cut(received(t, c), "\n")
		n, err := strconv.ParseInt(strings.TrimPrefix(rest, "MONOTONIC_USEC="), 10, 64)
		if first != "RELOADING=1" || err != nil || n <= 0 {
			t.Fatalf("sent %q, %q; want RELOADING=1 and the clock", first, rest)
		}
		readings = append(readings, n)
	}
	if readings[1] < readings[0] {
		t.Errorf("the clock went from %d to %d", readings[0], readings[1])
	}
}

func TestNobodyToNotify(t *testing.T) {
	for _, value := range []string{"", "vsock:2:1", "relative"} {
		m := notify.Find(env(map[string]string{"NOTIFY_SOCKET": value}))
		if err := m.Ready("x"); m != nil || err != nil || m.Watchdog() != 0 {
			t.Errorf("NOTIFY_SOCKET=%q: %v, %v; want no manager", value, m, err)
		}
	}
	m := notify.Find(env(map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "gone")}))
	if err := m.Alive(); err == nil {
		t.Error("a missing socket is not an error")
	}
}

func TestWatchdogIsAskedForByProcess(t *testing.T) {
	for _, tt := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0},
		{"2000000", "", time.Second},
		{"2000000", strconv.Itoa(os.Getpid()), time.Second},
		{"2000000", "1", 0},
		{"-1", "", 0},
		{"soon", "", 0},
	} {
		m := notify.Find(env(map[string]string{"NOTIFY_SOCKET": "/s", "WATCHDOG_USEC": tt.usec, "WATCHDOG_PID": tt.pid}))
		if got := m.Watchdog(); got != tt.want {
			t.Errorf("WATCHDOG_USEC=%q WATCHDOG_PID=%q: every %v; want %v", tt.usec, tt.pid, got, tt.want)
		}
	}
}
