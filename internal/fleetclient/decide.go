package fleetclient

import "github.com/weir-go/weir/fleet"

// A View is what an answer of the Tier means to the callers of one load here: whether
// its entry can be used, and what they can wait for.
type View struct {
	Fresh   bool // the entry answers them
	Stale   bool // it may be served now, instead of waiting
	OnError bool // it may be served instead of a failure
	Foreign bool // it is for others, and a load of our own would not replace it

	Hurried bool // they cannot wait for another instance's load
	Insists bool // a failure of another instance is no answer for them
	Asked   bool // with Insists: the Tier was called for a lease in spite of it, or for a load that has failed
}

// A Step is what follows from an answer of the Tier.
type Step uint8

// The steps.
const (
	LoadAlone    Step = iota // load, without a lease
	Load                     // load, under the lease that the answer grants
	Serve                    // the entry is the answer
	ServeAndLoad             // it is, and a load under the lease follows behind it
	Wait                     // for the holder of the lease, then ask again
	AskPast                  // ask for what is newer than the entry
	AskCooled                // ask for a lease although the key cools
	Fail                     // the failure is the answer
)

// Decide returns what follows from a for callers with view v. Guards and Handlers
// decide alike; how they serve, wait and load is their own.
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
