package show

import (
	"sync"
	"time"

	"github.com/weir-go/weir/inspect"
)

// A census counts the entries of a cache, which takes some ten milliseconds for a
// million entries. Callers during a count, or soon after it, get the same result.
type census struct {
	count func() inspect.Entries

	mu   sync.Mutex
	last inspect.Entries // guarded by mu
	at   time.Time       // guarded by mu; zero before the first
}

func (c *census) get() inspect.Entries {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() || time.Since(c.at) > kept {
		c.last = c.count()
		c.at = time.Now()
	}
	return c.last
}
