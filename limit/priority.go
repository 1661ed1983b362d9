package limit

import "context"

// A Priority is the class of a caller. It travels in the context.
//
// There are two classes today. More will come on both sides of Normal and
// between the two, so store and send a Priority by its constant's name, never
// by its number. Until then a value above Background counts as Normal, and
// one below it as Background.
type Priority int8

const (
	// Background is work that nobody waits for, such as a refresh ahead of
	// time. It never queues and never takes the last permits: see
	// [ConcurrencyOptions].Reserve and [RateLimiter.Acquire].
	Background Priority = -64
	// Normal is the class of a context that names none.
	Normal Priority = 0
)

// priorityKey is of size zero, so that a look-up allocates nothing.
type priorityKey struct{}

// ContextWithPriority returns a copy of ctx whose class is p. It replaces the
// class that ctx has, upwards as well as downwards.
func ContextWithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// PriorityOf returns the class of ctx, Normal if it names none. The limiters
// of this package ask only where the answer matters: not while there is room
// for every class.
func PriorityOf(ctx context.Context) Priority {
	p, _ := ctx.Value(priorityKey{}).(Priority)
	return p
}
