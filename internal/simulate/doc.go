// Package simulate runs a source under load behind a limiter in virtual time,
// and reports what came of it. It is for tests of limiters, and for comparing
// them; nothing in weir imports it but tests.
//
// A [Scenario] says what the [Source] can take, and how that changes, and
// which [Arrivals] it meets. A [Contender] makes the [Gate] that decides who
// gets through. [Run] puts the two together inside a testing/synctest bubble,
// and [Compare] makes a bubble for each of several contenders; both return a
// [Report], and [Table] prints reports beside each other.
//
//	reports := simulate.Compare(t, s, simulate.Ideal(0), simulate.None(), mine)
//	simulate.Table(t.Output(), reports...)
//
// # The same table every time
//
// All that is random about a call is drawn in the order of arrival, before it
// runs: every gate meets the same calls. A run then is the same whatever the
// scheduler does, because one goroutine, the driver, does one thing at a time.
// An arrival, the end of a call, a caller's deadline, a step of the capacity:
// each is an event, and the next one comes only after every goroutine of the
// bubble has blocked again. Calls that a gate lets through at the same instant
// enter the source in the order in which they arrived. What is left to the
// gate are its own timers; a gate that sets two timers of its own to one
// instant may still race against itself.
package simulate
