// Package overload puts weir's limiters and those of other libraries in front
// of the same simulated source, and prints what comes of it.
//
//	go test ./overload -v -run Table                    # a few scenarios
//	go test ./overload -v -run Table -args -scenarios . # all of them, in minutes
//	go test ./overload -v -run Pauses                   # some sources that pause
//	go test ./overload -v -run Pauses -timeout 0 -args -pauses 1 # all of them, in an hour
//
// Time is virtual and all that is random is drawn beforehand, so a table is
// the same on every machine; see weir's internal/simulate. Every gate that can
// make callers wait has the same budget for it, the mean service time of the
// source at the start.
//
// # The gates
//
//   - ideal knows the source's true capacity and follows it.
//   - none lets everybody through.
//   - fixed is limit.Concurrency with the capacity of the start.
//   - failsafe is failsafe-go's adaptive limiter as NewWithDefaults makes it,
//     which refuses at once when it is full; failsafe-wait is the same limiter
//     asked with AcquirePermitWithMaxWait. WithQueueing is left out: it refuses
//     at random.
//   - gradient2 is the port of Netflix's Gradient2 in go-concurrency-limits
//     behind its DefaultLimiter, with that library's defaults but for a least
//     limit of 1 in place of 20; gradient2-wait is the same behind its FIFO
//     queue.
package overload
