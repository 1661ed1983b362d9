package fleetclient_test

import (
	"testing"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
)

// The next step after each answer of the Tier, for Guards and for Handlers.
func TestDecide(t *testing.T) {
	type view = fleetclient.View
	for _, tt := range []struct {
		name string
		a    fleet.Answer
		v    view
		want fleetclient.Step
	}{
		{"fresh, of use", fleet.Answer{Grant: fleet.GrantFresh}, view{Fresh: true}, fleetclient.Serve},
		{"fresh, not readable or too old", fleet.Answer{Grant: fleet.GrantFresh}, view{}, fleetclient.AskPast},
		{"fresh, for others", fleet.Answer{Grant: fleet.GrantFresh}, view{Foreign: true}, fleetclient.LoadAlone},
		{"leased", fleet.Answer{Grant: fleet.GrantLease}, view{}, fleetclient.Load},
		{"leased, with a stale entry", fleet.Answer{Grant: fleet.GrantLease}, view{Stale: true}, fleetclient.ServeAndLoad},
		{"leased, with one for failures", fleet.Answer{Grant: fleet.GrantLease}, view{OnError: true}, fleetclient.Load},
		{"held", fleet.Answer{Grant: fleet.GrantHeld}, view{}, fleetclient.Wait},
		{"held, with a stale entry", fleet.Answer{Grant: fleet.GrantHeld}, view{Stale: true}, fleetclient.Serve},
		{"held, in a hurry", fleet.Answer{Grant: fleet.GrantHeld}, view{Stale: true, Hurried: true}, fleetclient.LoadAlone},
		{"cooling", fleet.Answer{Grant: fleet.GrantCooling}, view{Stale: true}, fleetclient.Fail},
		{"cooling, with an entry for it", fleet.Answer{Grant: fleet.GrantCooling}, view{OnError: true, Insists: true}, fleetclient.Serve},
		{"cooling, not accepted", fleet.Answer{Grant: fleet.GrantCooling}, view{Insists: true}, fleetclient.AskCooled},
		{"cooling, not accepted again", fleet.Answer{Grant: fleet.GrantCooling}, view{Insists: true, Asked: true}, fleetclient.LoadAlone},
		{"not for others", fleet.Answer{Grant: fleet.GrantCooling, Failure: fleet.Failure{Kind: fleet.Uncacheable}}, view{OnError: true}, fleetclient.LoadAlone},
		{"unknown", fleet.Answer{Grant: 99}, view{Fresh: true, Stale: true}, fleetclient.LoadAlone},
	} {
		if got := fleetclient.Decide(tt.a, tt.v); got != tt.want {
			t.Errorf("%s: Decide(%v, %+v) = %d; want %d", tt.name, tt.a.Grant, tt.v, got, tt.want)
		}
	}
}
