package embedded

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
)

// A logger receives the log of the embedded server. It passes warnings and errors on to
// a slog.Logger. It also detects that the server cannot start or can no longer write,
// because the server reports that only in its log.
type logger struct {
	to *slog.Logger

	// broken is signaled when a write has failed; it has a buffer of one.
	broken chan struct{}

	mu    sync.Mutex
	fatal error    // guarded by mu; the first fatal error
	said  []string // guarded by mu; warnings during the start, nil afterwards
}

func newLogger(to *slog.Logger) *logger {
	return &logger{to: to, broken: make(chan struct{}, 1)}
}

// expected lists warnings that are not logged: messages may be as large as jobs
// allow.
var expected = []string{"Maximum payloads over"}

// failures lists messages after which the server writes to no stream any more, or not
// to the one that the message names.
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

// Fatalf does not end the process; only the start of the server fails.
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

// note keeps a message logged during the start, and reports whether a start is in
// progress. The files were checked before. If a stream is not recovered, the start
// fails, and the error quotes the first of these messages. The others would look like
// data loss after a killed process, so they are logged only at debug level.
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
	l.to.Debug("embedded: from the server's start: " + msg)
	return true
}

func (l *logger) look(msg string) {
	if !hasAny(msg, failures) {
		return
	}
	l.breakOff()
}

// breakOff signals that a write has failed.
func (l *logger) breakOff() {
	select {
	case l.broken <- struct{}{}:
	default: // already signaled
	}
}

// fail records a failed flush. It is then unknown which data the operating system
// dropped, so the server must read its files again.
func (l *logger) fail(err error) {
	l.to.Error("embedded: flushing failed", "error", err)
	l.breakOff()
}

// begin forgets the messages of the previous server.
func (l *logger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal, l.said = nil, make([]string, 0, 16)
	select {
	case <-l.broken:
	default:
	}
}

// end returns the messages from the server's start, and the error that made it fail,
// if any.
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
