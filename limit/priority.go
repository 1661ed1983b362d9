package limit

import "context"

// A Priority is the class of a caller, carried in its context. The constants define
// the four classes; a value between two of them counts as the lower one.
//
// More classes may be added, so store and send a Priority by the name of its
// constant, never by its number.
type Priority int8

const (
	// Background is work without a waiting caller, such as a refresh ahead of
	// time. It never queues and never takes the last permits: see
	// [ConcurrencyOptions].Reserve, [Adaptive.Acquire] and
	// [RateLimiter.Acquire].
	Background Priority = -64
	// Low is work that a caller waits for, but that is rejected first under
	// load: reports, crawlers, bulk clients.
	Low Priority = -32
	// Normal is the class of a context without a Priority.
	Normal Priority = 0
	// High is work that must continue when the rest is rejected: payments, health
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

// priorityKey has size zero, so that a lookup allocates nothing.
type priorityKey struct{}

// ContextWithPriority returns a copy of ctx whose class is p. It replaces any class
// that ctx has, and can raise as well as lower it.
func ContextWithPriority(ctx context.Context, p Priority) context.Context {
	return context.WithValue(ctx, priorityKey{}, p)
}

// PriorityOf returns the class of ctx, or Normal if it has none. The limiters of
// this package call it only when they need it, which is not while there is room for
// every class.
func PriorityOf(ctx context.Context) Priority {
	p, _ := ctx.Value(priorityKey{}).(Priority)
	return p
}
