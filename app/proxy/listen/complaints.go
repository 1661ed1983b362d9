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
	// MaxComplaint is how many bytes of one message of net/http are logged: room for
	// the part of a panic's stack that says where it was. Some quote what a client or a
	// server has sent, which may be as long as they like.
	MaxComplaint = 4 << 10
	// ComplaintsPerSecond bounds how many are logged, of each level: scanners cause as
	// many as they like. How many were left out is logged with the next one.
	ComplaintsPerSecond = 10
)

// Complaints returns what takes the messages that net/http writes by itself, outside of
// any server: about connections to origins, which it says nowhere else. They are
// warnings.
func Complaints(logger *slog.Logger) io.Writer { return complaints(logger, slog.LevelWarn) }

// complaints takes what net/http logs: panics of handlers as errors, and the rest at the
// level. What clients do wrong (a TLS handshake that failed, for example) is worth a
// debug message, as anybody can cause it.
func complaints(logger *slog.Logger, level slog.Level) io.Writer {
	return &complainer{logger: plain.Logger(logger), level: level}
}

type complainer struct {
	logger *slog.Logger
	level  slog.Level

	ours, theirs allowance // panics and the like have their own, which nobody else uses up
}

// Write logs one message, which is of one call.
func (c *complainer) Write(p []byte) (int, error) {
	text, level, allowed := strings.TrimSpace(string(p)), c.level, &c.theirs
	if strings.HasPrefix(text, "http: panic") || strings.HasPrefix(text, "http2: panic") || strings.HasPrefix(text, "http: Accept error") {
		level, allowed = slog.LevelError, &c.ours
	}
	ok, left := allowed.take(time.Now())
	if left > 0 {
		c.logger.Log(context.Background(), level, "messages of net/http were left out", "messages", left, "allowed_per_second", ComplaintsPerSecond)
	}
	if ok {
		c.logger.Log(context.Background(), level, plain.Bounded(plain.Text(plain.Bounded(withoutBytes(text), MaxComplaint)), MaxComplaint), "by", "net/http")
	}
	return len(p), nil
}

// withoutBytes is a message without what an idle connection brought unasked: it may be
// the answer to somebody's request.
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

// An allowance is how many messages may be logged in a second.
type allowance struct {
	mu     sync.Mutex
	second int64 // guarded by mu; of the Unix clock
	n      int   // guarded by mu; in this second
	left   int   // guarded by mu; left out since that was last told
}

// take reports whether a message may be logged, and how many were left out before the
// second that begins with it.
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
