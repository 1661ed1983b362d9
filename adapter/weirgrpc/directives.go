package weirgrpc

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Directives are a handler's decisions about its own response. Durations mean the same as
// in a weir.Entry: zero is the Policy's, negative (weir.None) is none.
type Directives struct {
	// TTL and the stale windows replace those of the Policy.
	TTL                  time.Duration
	StaleWhileRevalidate time.Duration
	StaleIfError         time.Duration

	// Tags name the response for Server.InvalidateTags.
	Tags []string
	// With NoStore only the callers that waited for the response get it.
	NoStore bool
	// With Private only the caller that started the execution gets the response. The
	// others run alone.
	Private bool
}

// SetDirectives sets the directives of a handler's response, and replaces earlier ones. Call it
// in the handler, with the handler's context. It reports false, and does nothing, if the handler does not
// run for a call that may be shared, or has returned. It is safe for concurrent use.
func SetDirectives(ctx context.Context, t Directives) bool {
	b, ok := ctx.Value(directivesKey{}).(*directivesBox)
	return ok && b.set(t)
}

type directivesKey struct{}

// A directivesBox holds the Directives of one execution.
type directivesBox struct {
	mu         sync.Mutex
	directives Directives // guarded by mu
	over       bool       // guarded by mu: the handler has returned
}

func (b *directivesBox) set(t Directives) bool {
	t.Tags = slices.Clone(t.Tags)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over {
		b.directives = t
	}
	return !b.over
}

func (b *directivesBox) end() Directives {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	return b.directives
}
