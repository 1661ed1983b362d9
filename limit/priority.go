package limit

import "context"

// A Priority is the class of a caller. It travels in the context. There are
// four, the constants; a value between two of them counts as the lower one.
//
// More may come, so store and send a Priority by its constant's name, never by
// its number.
type Priority int8

const (
	// Background is work that nobody waits for, such as a refresh ahead of
	// time. It never queues and never takes the last permits: see
	// [ConcurrencyOptions].Reserve, [Adaptive.Acquire] and
	// [RateLimiter.Acquire].
	Background Priority = -64
	// Low is work that somebody waits for, and that goes first when there is
	// too much: reports, crawlers, bulk clients.
	Low Priority = -32
	// Normal is the class of a context that names none.
	Normal Priority = 0
	// High is what must go on when the rest does not: payments, health
	// checks, operators.
	High Priority = 32
)

// class returns the number of p's class in a queue.
func (p Priority) class() int {
	switch {
	case p >= High:
		return 2
	case p >= Normal:
		return 1
	}
	return 0
}

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
