package limit

import "time"

// A Pauser is a Limiter that can stop admitting calls for a time, because the source has
// stated that it must not be called until then.
type Pauser interface {
	Limiter

	// Pause admits no call for d from now on, or for as long as the limiter trusts such
	// a statement, if that is less. A pause that is running is never shortened. It does not
	// block.
	Pause(d time.Duration)
}

// Pause calls Pause of each [Pauser] among the limiters that l consists of (see [Parts]). A
// Guard calls it for its Limiter when a load returns a weir.RetryAfter.
func Pause(l Limiter, d time.Duration) {
	for _, part := range Parts(l) {
		if p, ok := part.(Pauser); ok {
			p.Pause(d)
		}
	}
}
