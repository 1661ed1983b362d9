// Package simulate runs a source under load behind a limiter in virtual time, and
// reports the outcome. It is for testing and comparing limiters; nothing in weir
// imports it except tests.
//
// A [Scenario] describes what the [Source] can serve, how that changes, and which
// [Arrivals] it gets. A [Contender] creates the [Gate] that decides which calls are
// admitted. [Run] combines the two inside a testing/synctest bubble, and [Compare]
// creates a bubble for each of several contenders; both return a [Report], and
// [Table] prints reports side by side.
//
//	reports := simulate.Compare(t, s, simulate.Ideal(0), simulate.None(), mine)
//	simulate.Table(t.Output(), reports...)
//
// # The same table every time
//
// Everything random about a call is drawn in the order of arrival, before it runs, so
// every gate gets the same calls. A run is then the same whatever the scheduler does,
// because one goroutine, the driver, does one thing at a time. An arrival, the end of
// a call, a caller's deadline and a step of the capacity are events. The next event
// comes only after every goroutine of the bubble has blocked again. Calls that a gate
// admits at the same instant enter the source in the order in which they arrived.
// Only the gate's own timers are outside the driver's control: a gate that sets two
// timers to the same instant may still race against itself.
package simulate
