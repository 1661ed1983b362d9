package journal

import (
	"sync"
	"time"
)

// A clock estimates the server's time and is never ahead of it: a reading is late by
// its unknown travel time. So nothing starts too early. Between two readings it uses
// this machine's monotonic time, so setting this machine's clock has no effect.
type clock struct {
	mu     sync.Mutex
	server time.Time // guarded by mu; the server's time at here
	here   time.Time // guarded by mu
}

// set records a reading that has just arrived.
func (c *clock) set(server time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server, c.here = server, time.Now()
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server.Add(time.Since(c.here))
}
