package listen

import (
	"context"
	"log"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// complaintsPerSecond bounds what scanners can write into the log.
const complaintsPerSecond = 10

// complaints takes what net/http logs: panics of handlers as errors, and what
// clients did wrong (a TLS handshake that failed, for example) as debug
// messages, as anybody can cause them.
func complaints(logger *slog.Logger) *log.Logger {
	return log.New(&complainer{logger: logger}, "", 0)
}

type complainer struct {
	logger *slog.Logger

	mu     sync.Mutex
	second int64 // guarded by mu; of the Unix clock
	n      int   // guarded by mu; in this second
}

func (c *complainer) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	level := slog.LevelDebug
	if strings.HasPrefix(text, "http: panic") || strings.HasPrefix(text, "http2: panic") || strings.HasPrefix(text, "http: Accept error") {
		level = slog.LevelError
	}
	if c.allow() {
		c.logger.Log(context.Background(), level, text)
	}
	return len(p), nil
}

func (c *complainer) allow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := time.Now().Unix(); s != c.second {
		c.second, c.n = s, 0
	}
	c.n++
	return c.n <= complaintsPerSecond
}
