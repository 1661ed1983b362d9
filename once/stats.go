package once

import (
	"errors"
	"iter"
	"slices"
)

// An Outcome is something that happens to a request with a key, or to its call.
type Outcome uint8

// The outcomes that are counted.
const (
	Made       Outcome = iota // claims
	Kept                      // calls whose answer was kept
	Finished                  // calls that have run, and whose answer was not kept
	Freed                     // claims of calls that were certainly not done
	Doubted                   // calls whose outcome is unknown
	Joined                    // requests that waited for a running call
	Replayed                  // requests that got a kept answer
	ToldDone                  // requests for a call that has run, whose answer is not kept
	ToldUnsure                // requests for a call whose outcome is unknown
	Mismatched                // requests with the key of another request
	Foreign                   // requests with the key of other credentials
	Full                      // requests for which the store had no room
	Unusable                  // requests for which the store did not work
	outcomes
)

var outcomeNames = [outcomes]string{
	"claimed", "kept", "finished", "freed", "doubted", "joined", "replayed", "told_done", "told_unknown",
	"other_request", "other_credentials", "full", "store_failed",
}

// Stats are the counts of Claims, and how full the Store is.
type Stats struct {
	Counts  map[string]uint64 `json:"counts"`  // numbers of calls by outcome
	Running int               `json:"running"` // calls that run now
	// Unknown is how many calls have an unknown outcome now. A call that has just ended may be missing.
	Unknown int   `json:"unknown_calls"`
	Usage   Usage `json:"usage"` // how full the store is
}

// Stats returns a snapshot, without reading the Store.
func (c *Claims) Stats() Stats {
	// Claims that begin or end between the reads must not look like claims of another process.
	before, u := c.sending.Load(), c.store.Usage()
	sending := int(max(before, c.sending.Load()))
	s := Stats{Counts: map[string]uint64{}, Running: c.running(), Unknown: u.Unknown + max(0, u.Claimed-sending), Usage: u}
	for name, n := range c.Counts() {
		s.Counts[name] = n
	}
	return s
}

// Counts yields each Outcome, by its name, with its count.
func (c *Claims) Counts() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for i, name := range outcomeNames {
			if !yield(name, c.count[i].Load()) {
				return
			}
		}
	}
}

// IsCall reports whether the Outcome with that name is of a call, and not of a request.
func IsCall(name string) bool {
	return slices.Contains(outcomeNames[:Joined], name)
}

// refuses counts a request that is refused because of err, and returns err.
func (c *Claims) refuses(err error) error {
	switch {
	case err == nil:
	case errors.Is(err, ErrCredentials):
		c.count[Foreign].Add(1)
	case errors.Is(err, ErrFingerprint):
		c.count[Mismatched].Add(1)
	case errors.Is(err, ErrFull), errors.Is(err, ErrShare):
		c.count[Full].Add(1)
	default:
		c.count[Unusable].Add(1)
	}
	return err
}

// replayed counts a request that gets what is stored, and returns that.
func (c *Claims) replayed(r Record) Record {
	switch r.State {
	case Answered:
		c.count[Replayed].Add(1)
	case Done:
		c.count[ToldDone].Add(1)
	default:
		c.count[ToldUnsure].Add(1)
	}
	return r
}
