// Package flighttest is the conformance suite for coalescing. It tests what package
// flight, the Guard and every other implementation guarantee to callers of one key.
// The names of the cases start with the points F1 to F9 of the contract
// (docs/goals.md). Each case runs in a bubble of testing/synctest, so its times are
// exact, and a leaked goroutine fails it.
package flighttest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A Load is the function that callers of one key share.
type Load = func(context.Context) (int, error)

// A Group is an implementation, ready for one case.
type Group struct {
	// Do runs load for key, or joins the flight of key that is running. It must
	// not store the value after the flight. Errors are those of package flight.
	Do func(ctx context.Context, key any, load Load) (value int, joined bool, err error)

	// Joinable returns how many keys have a flight that a caller could join.
	Joinable func() int
}

// Run runs all cases, each as a subtest. open returns a new Group that cancels a load
// after grace when its last caller has left: at once with 0, never with
// [flight.Never]. The Group must not bound loads in any other way. open uses t.Cleanup
// to close whatever needs closing.
func Run(t *testing.T, open func(t *testing.T, grace time.Duration) Group) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.tell(&story{T: t, Group: open(t, c.grace), start: time.Now()})
			})
		})
	}
}

// A testCase tests one guarantee.
type testCase struct {
	name  string
	grace time.Duration
	tell  func(*story)
}

var cases = concat(contextCases, leavingCases, abandonCases, freshCases, faultCases(), keyCases, failureCases, recursiveCases)

func concat(all ...[]testCase) []testCase {
	var joined []testCase
	for _, c := range all {
		joined = append(joined, c...)
	}
	return joined
}
