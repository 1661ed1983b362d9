// Package overload tests weir's limiters and those of other libraries in front of the
// same simulated source, and prints the results.
//
//	go test ./overload -v -run Table                    # a few scenarios
//	go test ./overload -v -run Table -args -scenarios . # all of them, in minutes
//	go test ./overload -v -run Pauses                   # some sources that pause
//	go test ./overload -v -run Pauses -timeout 0 -args -pauses 1 # all of them, in an hour
//
// Time is virtual and all random values are drawn in advance, so a table is the same
// on every machine; see weir's internal/simulate. Every gate that can make callers
// wait has the same budget for that: the mean service time of the source at the
// start.
//
// # The gates
//
//   - ideal knows the source's true capacity and follows it.
//   - none admits every call.
//   - fixed is limit.Concurrency with the source's capacity at the start.
//   - failsafe is failsafe-go's adaptive limiter as created by NewWithDefaults, which
//     rejects calls immediately when it is full; failsafe-wait is the same limiter,
//     called with AcquirePermitWithMaxWait. WithQueueing is left out because it
//     rejects at random.
//   - gradient2 is the port of Netflix's Gradient2 in go-concurrency-limits behind
//     its DefaultLimiter. It uses that library's defaults, except for a minimum limit
//     of 1 instead of 20; gradient2-wait is the same behind its FIFO queue.
package overload
