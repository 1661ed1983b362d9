package gateway

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/weir-go/weir/weirhttp"
)

// A ClientBudget limits what the calls of a route cost for each client: see
// [weirhttp.ClientBudget]. The client whose request starts a call pays for it; hits and
// shared calls cost nothing. A client without enough units gets 429 with a true
// Retry-After.
type ClientBudget struct {
	// Units is the number of units that a client is refilled with every Per, from 1 to limit.MaxUnits.
	Units int
	// Per is the period of Units, in whole milliseconds. 0 means 1 minute, at most 24 h.
	Per time.Duration
	// Burst is how many units a client may spend in one burst. A call whose estimate is above
	// it gets 413. 0 means Units.
	Burst int
	// MaxDebt is how many units a client may owe; the rest is forgiven. 0 means
	// Burst, negative none.
	MaxDebt int
	// By sets how clients are distinguished, as Route.RateBy does. A header must not be one
	// that the Cache's policy ignores.
	By string
	// Clients is how many clients are remembered. 0 means 100,000. A client that owes
	// units, has spent some or has a call in flight is not forgotten for a new one; while
	// there is no room, new clients of an address share a budget.
	Clients int
	// Fleet makes a client have its units once for all gateways of Config.Fleet; see
	// weirhttp.ClientBudgetFleet. The Tier must count units (fleet.Abilities), and
	// Fleet.RateFailure says what happens without it. All gateways must have the same
	// ClientBudget, under the same name of the route.
	Fleet bool
}

// options returns the options of b's limit in all, for clients that trust identifies.
func (b ClientBudget) options(name string, client weirhttp.Client, all *Fleet) weirhttp.ClientBudgetOptions {
	o := weirhttp.ClientBudgetOptions{
		Units: b.Units, Per: b.Per, Burst: b.Burst, MaxDebt: b.MaxDebt, Keys: b.Clients, Client: client, Name: name,
	}
	o.Key = clientKey(b.By, client)
	if b.Fleet && all != nil && all.Tier != nil {
		o.Fleet = weirhttp.ClientBudgetFleet{
			Ledger: all.Tier.Abilities().Ledger, Namespace: all.Namespace, OnFailure: all.RateFailure, Instances: all.Instances,
		}
	}
	return o
}

// clientKey returns the function that tells clients apart: see Route.RateBy.
func clientKey(by string, client weirhttp.Client) func(*http.Request) string {
	key := weirhttp.ByAddress(client)
	if name, ok := strings.CutPrefix(by, "header:"); ok {
		key = weirhttp.ByHeader(name, key)
	}
	return key
}

func (b *ClientBudget) validate(f *faults, at string, r Route) {
	if b == nil {
		return
	}
	name, header := f.clientsBy(at+".By", b.By)
	ignored := header && slices.ContainsFunc(r.Cache.IgnoreHeaders, func(h string) bool { return strings.EqualFold(h, name) })
	f.Check(!ignored, at+".By", quoted(b.By), "a field that is not in Cache.IgnoreHeaders")
	_, err := weirhttp.NewClientBudget(b.options("", nil, nil))
	f.adopt(at, err)
}

// clientsBy checks a setting such as Route.RateBy, and returns the field in it.
func (f *faults) clientsBy(at, by string) (name string, header bool) {
	name, header = strings.CutPrefix(by, "header:")
	ok := by == "" || by == "address" || header && isToken(name)
	f.Check(ok, at, quoted(by), `"address" or "header:" and the name of a field`)
	return name, header
}

// clientBudget sets that of h, which replaces was. The clients' units are kept unless
// clients are now identified differently, or the fleet counts them from now on, or no longer.
func (p *plan) clientBudget(c Config, h, was *handler, client weirhttp.Client) (err error) {
	b := h.route.ClientBudget
	if b == nil {
		return nil
	}
	o := b.options(h.route.Name, client, c.Fleet)
	if h.clientBudget, err = weirhttp.NewClientBudget(o); err != nil {
		return err
	}
	if same := was.clientBudget; same != nil && was.route.ClientBudget.By == b.By && was.route.ClientBudget.Fleet == b.Fleet && slices.Equal(c.TrustedProxies, p.before.config.TrustedProxies) {
		p.limits = append(p.limits, func() { _ = same.Update(o) }) // valid, as it made another
		h.clientBudget = same
	}
	return nil
}
