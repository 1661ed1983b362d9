// Package notify reports the state of the process to a service manager, with systemd's
// protocol (sd_notify(3)): datagrams to a Unix socket that the manager names in the
// environment. Other managers support it, too.
package notify

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// A Manager is the service manager that started the process. A nil Manager means there
// is none: nothing is sent.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// Find returns the Manager that the environment names, nil if it names none. getenv is
// os.Getenv, or a fake in tests.
func Find(getenv func(string) string) *Manager {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" || (socket[0] != '/' && socket[0] != '@') {
		return nil
	}
	m := &Manager{socket: socket}
	if pid := getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return m // the watchdog is for another process
	}
	if usec, err := strconv.ParseInt(getenv("WATCHDOG_USEC"), 10, 64); err == nil && usec > 0 {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	return m
}

// Watchdog is how often Alive has to be called: twice per watchdog period. 0 means
// never.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog / 2
}

// Ready reports that startup or a reload is complete. status is a line for people.
func (m *Manager) Ready(status string) error { return m.send("READY=1", "STATUS="+line(status)) }

// Reloading reports that a reload has begun. Ready ends it.
func (m *Manager) Reloading() error {
	words := []string{"RELOADING=1"}
	if now, ok := monotonic(); ok {
		words = append(words, fmt.Sprintf("MONOTONIC_USEC=%d", now.Microseconds()))
	}
	return m.send(words...)
}

// Stopping reports that the process is about to exit.
func (m *Manager) Stopping(status string) error {
	return m.send("STOPPING=1", "STATUS="+line(status))
}

// Alive feeds the watchdog.
func (m *Manager) Alive() error { return m.send("WATCHDOG=1") }

func (m *Manager) send(words ...string) error {
	if m == nil {
		return nil
	}
	// Package net interprets "@name" as a name in the abstract namespace.
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

// line turns s into one line.
func line(s string) string { return strings.ReplaceAll(s, "\n", "; ") }
