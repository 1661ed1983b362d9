package journal

import (
	"sync"
	"time"
)

// A clock tells the server's time, never too much: a reading is as old as its
// way here, which is not known. So nothing is started before its time. Between
// two readings it uses the monotonic time of this machine, so that setting this
// machine's clock does nothing to it.
type clock struct {
	mu     sync.Mutex
	server time.Time // guarded by mu; the server's time at here
	here   time.Time // guarded by mu
}

// set notes a reading that has just come.
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
