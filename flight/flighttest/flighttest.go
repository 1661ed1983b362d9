// Package flighttest is the conformance suite for coalescing: what package
// flight, the Guard and every other implementation promise the callers of one
// key. The cases are named by the points F1 to F9 of the contract
// (docs/goals.md). Each runs in a bubble of testing/synctest, so its times are
// exact, and a goroutine that is left behind fails it.
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
	// Do runs load for key, or joins the flight of key that is running. It
	// keeps no value when that has ended. Errors are those of package flight.
	Do func(ctx context.Context, key any, load Load) (value int, joined bool, err error)

	// Joinable returns how many keys have a flight that a caller could join.
	Joinable func() int
}

// Run runs all cases, each as a subtest. Open returns a new Group that cancels a
// load after grace when its last caller has left: at once with 0, never with
// [flight.Never]. A load is not bounded otherwise. What open has to close it
// closes in t.Cleanup.
func Run(t *testing.T, open func(t *testing.T, grace time.Duration) Group) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.tell(&story{T: t, Group: open(t, c.grace), start: time.Now()})
			})
		})
	}
}

// A testCase is a promise that is kept or broken.
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
