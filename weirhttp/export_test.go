package weirhttp

import (
	"testing"

	"github.com/weir-go/weir/internal/spread"
)

// The tests of this package expect the least Retry-After, unless they say otherwise.
func init() {
	strictly = true
	spread.Fix(func() float64 { return 0 })
}

// CollideBodies makes the keys of all bodies of a URL equal until the end of the test.
func CollideBodies(t *testing.T) {
	collide = true
	t.Cleanup(func() { collide = false })
}

// HeldBodies returns how many bytes of request bodies are held.
func (h *Handler) HeldBodies() int64 { return h.cache.ahead.used.Load() }

// Rules returns p as internal/rfc9111 sees it.
func (p Policy) Rules() any { return p.rules() }
