// Package judge decides whether a cache shared what it must not, or kept apart what it
// must share. It knows the rule of decision 0090 and nothing of weir: it imports no
// package of the module, and its table of fields is typed from the decision, so a fault
// of the code is not also a fault of the judge.
//
// [Draw] makes a short history from a seed: a route, an origin, and two to five requests
// from up to three clients. [Play] runs it through a [System] and records each call to
// the origin and each answer. [Judge] looks at each pair of a call and another request:
// sharing is forbidden ([MustNot]), required ([Must]) or allowed ([May]). Where the
// contract is silent, the verdict is May. [Shrink] makes a history with a fault as short
// as it can, and [History.String] prints it as Go.
//
// The body of each response names its call, so the judge sees whose bytes a client got.
// Play reads the clock and sleeps: run it in a testing/synctest bubble.
//
// Only tests import this package.
package judge
