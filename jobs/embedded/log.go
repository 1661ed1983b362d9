package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// A logger is what the server within writes to: warnings and errors go on to a
// slog.Logger. It is also how that server says that it cannot start, and that it
// cannot write any more, since it has no other way.
type logger struct {
	to *slog.Logger

	// broken has room for one: a write has failed.
	broken chan struct{}

	mu    sync.Mutex
	fatal error    // guarded by mu; the first
	said  []string // guarded by mu; warnings, and nil once the start is over
}

func newLogger(to *slog.Logger) *logger {
	return &logger{to: to, broken: make(chan struct{}, 1)}
}

// Of these a user of this package is not told: messages may be as large as
// jobs allow them to be.
var expected = []string{"Maximum payloads over"}

// Then no stream, or not the one that is named, is written to any more.
var failures = []string{"ritical write error", "will be DISABLED", "disabling JetStream"}

func (l *logger) Warnf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	if !hasAny(msg, expected) && !l.note(msg) {
		l.to.Warn("embedded: " + strings.TrimSpace(msg))
	}
	l.look(msg)
}

func (l *logger) Errorf(format string, v ...any) {
	msg := fmt.Sprintf(format, v...)
	if !l.note(msg) {
		l.to.Error("embedded: " + strings.TrimSpace(msg))
	}
	l.look(msg)
}

// Fatalf does not end the process: only the start of the server is over.
func (l *logger) Fatalf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	l.mu.Lock()
	if l.fatal == nil {
		l.fatal = err
	}
	l.mu.Unlock()
	l.to.Error("embedded: " + err.Error())
}

func (l *logger) Noticef(string, ...any) {}
func (l *logger) Debugf(string, ...any)  {}
func (l *logger) Tracef(string, ...any)  {}

// note keeps what is said during the start, and reports whether there is one. The
// files were checked before, and what is not recovered fails the start, with the
// first of what was said. The rest would look like a loss where a process was
// killed, and is logged at the debug level only.
func (l *logger) note(msg string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said == nil {
		return false
	}
	msg = strings.TrimSpace(msg)
	if len(l.said) < cap(l.said) {
		l.said = append(l.said, msg)
	}
	l.to.Debug("embedded: the server says at its start: " + msg)
	return true
}

func (l *logger) look(msg string) {
	if !hasAny(msg, failures) {
		return
	}
	l.breakOff()
}

// breakOff says that a write has failed.
func (l *logger) breakOff() {
	select {
	case l.broken <- struct{}{}:
	default: // known already
	}
}

// fail notes a flush that failed. What the system has dropped then is not known,
// and the server has to read its files again.
func (l *logger) fail(err error) {
	l.to.Error("embedded: flushing", "error", err)
	l.breakOff()
}

// begin forgets what was said of a former server.
func (l *logger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal, l.said = nil, make([]string, 0, 16)
	select {
	case <-l.broken:
	default:
	}
}

// end returns what the server has said while it started, and why it did not.
func (l *logger) end() (said string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	said = strings.Join(l.said, "; ")
	l.said = nil
	return said, l.fatal
}

func hasAny(s string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}
