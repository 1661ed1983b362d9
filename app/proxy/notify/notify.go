// Package notify tells a service manager how the process is doing, by
// systemd's protocol (sd_notify(3)): datagrams to a Unix socket that the
// manager names in the environment. Other managers speak it, too.
package notify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Manager is who started the process. A nil Manager is nobody: nothing is
// sent.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// Find returns the Manager that the environment names, nil if it names none.
// getenv is os.Getenv, or a test's.
func Find(getenv func(string) string) *Manager {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" || (socket[0] != '/' && socket[0] != '@') {
		return nil
	}
	m := &Manager{socket: socket}
	if pid := getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return m // the watchdog is another process's
	}
	if usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// Watchdog is how often the manager wants to hear Alive, with room to spare. 0
// means never.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog / 2
}

// Ready says that the start, or a reload, is done. status is a line for people.
func (m *Manager) Ready(status string) error { return m.send("READY=1", "STATUS="+line(status)) }

// Reloading says that a reload has begun. Ready ends it.
func (m *Manager) Reloading() error {
	words := []string{"RELOADING=1"}
	if now, ok := monotonic(); ok {
		words = append(words, fmt.Sprintf("MONOTONIC_USEC=%d", now.Microseconds()))
	}
	return m.send(words...)
}

// Stopping says that the process is about to end.
func (m *Manager) Stopping(status string) error {
	return m.send("STOPPING=1", "STATUS="+line(status))
}

// Alive feeds the watchdog.
func (m *Manager) Alive() error { return m.send("WATCHDOG=1") }

func (m *Manager) send(words ...string) error {
	if m == nil {
		return nil
	}
	// The net package takes "@name" for a name in the abstract namespace.
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer c.Close()
	if _, err := c.Write([]byte(strings.Join(words, "\n"))); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// line makes s one line.
func line(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
