package listen

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/weir-go/weir/plain"
)

const (
	// MaxComplaint is how many bytes of one message of net/http are logged: enough for
	// the part of a panic's stack that shows where it happened. Some messages quote
	// what a client or a server has sent, which can be of any length.
	MaxComplaint = 4 << 10
	// ComplaintsPerSecond bounds how many messages of each level are logged per second:
	// scanners can cause any number. The number of dropped messages is logged with the
	// next one.
	ComplaintsPerSecond = 10
)

// Complaints returns a writer for the messages that net/http logs outside of any
// server. They are about connections to origins and appear nowhere else. They are
// logged as warnings.
func Complaints(logger *slog.Logger) io.Writer { return complaints(logger, slog.LevelWarn) }

// complaints returns a writer for net/http's log: panics of handlers are logged as
// errors, and the rest at level. Client errors, such as a failed TLS handshake, belong
// at the debug level, because any client can cause them.
func complaints(logger *slog.Logger, level slog.Level) io.Writer {
	return &complainer{logger: plain.Logger(logger), level: level}
}

type complainer struct {
	logger *slog.Logger
	level  slog.Level

	ours, theirs allowance // panics and similar errors have a separate allowance, which other messages cannot use up
}

// Write logs one message. p is the whole of it.
func (c *complainer) Write(p []byte) (int, error) {
	text, level, allowed := strings.TrimSpace(string(p)), c.level, &c.theirs
	if strings.HasPrefix(text, "http: panic") || strings.HasPrefix(text, "http2: panic") || strings.HasPrefix(text, "http: Accept error") {
		level, allowed = slog.LevelError, &c.ours
	}
	ok, left := allowed.take(time.Now())
	if left > 0 {
		c.logger.Log(context.Background(), level, "messages of net/http were dropped", "messages", left, "allowed_per_second", ComplaintsPerSecond)
	}
	if ok {
		c.logger.Log(context.Background(), level, plain.Bounded(plain.Text(plain.Bounded(withoutBytes(text), MaxComplaint)), MaxComplaint), "by", "net/http")
	}
	return len(p), nil
}

// withoutBytes removes from a message the bytes that an idle connection received
// unasked: they can be the response to some client's request.
func withoutBytes(text string) string {
	before, after, found := strings.Cut(text, " starting with ")
	if !found || !strings.HasPrefix(text, "Unsolicited response") {
		return text
	}
	if i := strings.LastIndex(after, "; err="); i >= 0 && after[i:] != "; err=<nil>" {
		before += after[i:]
	}
	return before
}

// An allowance bounds the messages that are logged per second.
type allowance struct {
	mu     sync.Mutex
	second int64 // guarded by mu; in Unix time
	n      int   // guarded by mu; in this second
	left   int   // guarded by mu; dropped since that was last reported
}

// take reports whether a message may be logged. With the first message of a new second,
// it also returns how many were dropped before.
func (a *allowance) take(now time.Time) (ok bool, left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := now.Unix(); s != a.second {
		a.second, a.n = s, 0
		left, a.left = a.left, 0
	}
	if a.n++; a.n > ComplaintsPerSecond {
		a.left++
		return false, 0
	}
	return true, left
}
