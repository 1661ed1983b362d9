package fleetclient

import "github.com/weir-go/weir/fleet"

// A View is what an answer of the Tier means to the callers of one load on this
// instance: whether they can use its entry, and what they can wait for.
type View struct {
	Fresh   bool // the entry satisfies them
	Stale   bool // the entry may be served now, instead of waiting
	OnError bool // the entry may be served instead of a failure
	Foreign bool // the entry is for other callers, and a load here would not replace it

	Hurried bool // they cannot wait for another instance's load
	Insists bool // another instance's failure does not satisfy them
	Asked   bool // with Insists: a lease was already requested despite the failure, or after a failed load
}

// A Step is the next action after an answer of the Tier.
type Step uint8

// The steps.
const (
	LoadAlone    Step = iota // load without a lease
	Load                     // load under the granted lease
	Serve                    // serve the entry
	ServeAndLoad             // serve the entry, and load under the granted lease in the background
	Wait                     // wait for the holder of the lease, then call the Tier again
	AskPast                  // ask for something newer than the entry
	AskCooled                // ask for a lease although the key is cooling
	Fail                     // return the failure
)

// Decide returns the next step after answer a, for callers with view v. Guards
// and Handlers share these decisions; each implements serving, waiting and
// loading itself.
func Decide(a fleet.Answer, v View) Step {
	switch a.Grant {
	case fleet.GrantFresh:
		switch {
		case v.Fresh:
			return Serve
		case v.Foreign:
			return LoadAlone
		}
		return AskPast
	case fleet.GrantLease:
		if v.Stale {
			return ServeAndLoad
		}
		return Load
	case fleet.GrantHeld:
		switch {
		case v.Hurried:
			return LoadAlone
		case v.Stale:
			return Serve
		}
		return Wait
	case fleet.GrantCooling:
		switch {
		case a.Failure.Kind == fleet.Uncacheable:
			return LoadAlone
		case v.OnError:
			return Serve
		case !v.Insists:
			return Fail
		case !v.Asked:
			return AskCooled
		}
	}
	return LoadAlone
}
