package weirhttp

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/fleet/quota"
	"github.com/weir-go/weir/internal/buckets"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// ClientBudgetOptions configure a ClientBudget.
type ClientBudgetOptions struct {
	// Units is the number of units of Options.Cost that a client is refilled with every
	// Per, from 1 to limit.MaxUnits.
	Units int
	// Per is the period of Units, in whole milliseconds. 0 means one minute, at most 24 h.
	Per time.Duration
	// Burst is how many units a client may spend in one burst. A call whose estimate is above
	// it gets 413. 0 means Units.
	Burst int
	// MaxDebt is how many units a client may owe after calls that cost more than their
	// estimate. The rest is forgiven, and counted. 0 means Burst, negative none.
	MaxDebt int
	// Key, Keys, Client and Name: see ClientLimiterOptions. Key is called only for requests
	// that need a call, and gets the request without the fields that Options.Policy
	// ignores. A client is not forgotten in favor of a new one while it owes units or has
	// a call in flight. Each takes about 130 bytes.
	Key    func(*http.Request) string
	Keys   int
	Client Client
	Name   string
	// Fleet makes the instances count together. Without its Ledger each instance counts
	// alone.
	Fleet ClientBudgetFleet
}

// maxBudgetPer is the maximum of ClientBudgetOptions.Per.
const maxBudgetPer = 24 * time.Hour

// validate returns all faults at once.
func (o ClientBudgetOptions) validate() error {
	f := option.Faults{Package: "weirhttp", Prefix: "ClientBudgetOptions."}
	f.Check(o.Units >= 1 && o.Units <= limit.MaxUnits, "Units", o.Units, "from 1 to 1073741824")
	f.Check(o.Per >= 0 && o.Per <= maxBudgetPer && o.Per%time.Millisecond == 0, "Per", o.Per, "whole milliseconds, up to 24 h")
	f.Check(o.Burst >= 0 && o.Burst <= limit.MaxUnits, "Burst", o.Burst, "from 0 to 1073741824")
	f.Check(o.MaxDebt <= limit.MaxUnits, "MaxDebt", o.MaxDebt, "at most 1073741824")
	f.Check(o.Keys >= 0 && o.Keys <= maxKeys, "Keys", o.Keys, "from 0 to 1073741824")
	f.Check(printable(o.Name), "Name", strconv.Quote(o.Name), "printable ASCII")
	if f.Err() == nil {
		o.adoptFleet(&f)
	}
	return f.Err()
}

// withDefaults returns o with the defaults set. Without debt, MaxDebt is 0.
func (o ClientBudgetOptions) withDefaults() ClientBudgetOptions {
	o.Per = cmp.Or(o.Per, time.Minute)
	o.Burst = cmp.Or(o.Burst, o.Units)
	o.MaxDebt = max(0, cmp.Or(o.MaxDebt, o.Burst))
	o.Keys = cmp.Or(o.Keys, 100_000)
	o.Name = cmp.Or(o.Name, "default")
	if o.Key == nil {
		o.Key = ByAddress(o.Client)
	}
	return o
}

// meter returns the meter of o, whose defaults are set. Its instants are milliseconds:
// then all units fit into 63 bits (10^8 · 2^31 · …) with any Units, Per and Burst.
func (o ClientBudgetOptions) meter() buckets.Meter {
	return buckets.NewMeter(int64(o.Per/time.Millisecond), int64(o.Units), o.Burst, o.MaxDebt)
}

// A ClientBudget limits what the calls for each client cost (H34), in units of
// Options.Cost. The client whose request starts a call pays its estimate before the call,
// and the difference is returned or owed when the cost is known; the client also pays if it
// leaves before the end. Hits and requests that are served by another's call cost nothing,
// and neither do refreshes in the background. A client without enough units gets 429 with
// the time until there are enough, or a stale response if that may be served.
//
// Each client has a token bucket, with the same bounds on made-up clients as in
// [ClientLimiter]: no client can use another's units, and a client that has spent some gets
// them back only with time.
//
// With Fleet, all instances count together.
//
// Create one with [NewClientBudget]; the zero ClientBudget is not usable. It is safe for
// concurrent use. Without Fleet it has no goroutine to close.
type ClientBudget struct {
	key    func(*http.Request) string
	name   string
	start  time.Time
	burst  atomic.Int64
	table  *buckets.Table
	shares *buckets.Table                // by address, for clients that do not fit into table
	client [2]func(*http.Request) string // return an address; the first that is not empty counts
	shared *quota.KeyedBudget            // nil without a fleet

	refused atomic.Uint64
	sums    buckets.Sums // without a fleet
	over    over
}

// NewClientBudget returns a ClientBudget. The error joins an [*OptionError] for every
// option that is out of bounds.
func NewClientBudget(o ClientBudgetOptions) (*ClientBudget, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	keyed := o.keyedOptions()
	o = o.withDefaults()
	b := &ClientBudget{
		key: o.Key, name: o.Name, start: time.Now(),
		table:  buckets.NewTable(o.Keys, o.meter()),
		shares: buckets.NewTable(max(o.Keys, minShares), o.meter()),
		client: [2]func(*http.Request) string{ByAddress(o.Client), ByAddress(nil)},
	}
	b.burst.Store(int64(o.Burst))
	if o.Fleet.Ledger == nil {
		return b, nil
	}
	var err error
	b.shared, err = quota.NewKeyedBudget(o.Fleet.Ledger, keyed)
	return b, err
}

// Update changes the Units, Per, Burst, MaxDebt and Keys of b, and OnFailure and Instances of
// its Fleet. Name and Fleet.Namespace must be the same, Fleet.Ledger must be nil if and only if
// it was nil, and Key and Client are ignored. Units that a client has spent or owes stay so,
// without a fleet at most all of the new Burst and MaxDebt. Units that calls in flight have
// paid too much are then not returned.
func (b *ClientBudget) Update(o ClientBudgetOptions) error {
	f := option.Faults{Package: "weirhttp", Prefix: "ClientBudgetOptions."}
	f.Check(o.withDefaults().Name == b.name, "Name", strconv.Quote(o.Name), "the one it was made with")
	f.Check((o.Fleet.Ledger != nil) == (b.shared != nil), "Fleet.Ledger", o.Fleet.Ledger, "nil if it was, else not")
	f.Add(o.validate())
	if f.Err() == nil && b.shared != nil {
		f.Add(b.shared.Update(o.keyedOptions()))
	}
	if err := f.Err(); err != nil {
		return err
	}
	o = o.withDefaults()
	b.burst.Store(int64(o.Burst))
	b.table.Update(o.Keys, o.meter(), b.now())
	b.shares.Update(max(o.Keys, minShares), o.meter(), b.now())
	return nil
}

// now is the time of the tables, in milliseconds.
func (b *ClientBudget) now() time.Duration {
	return time.Duration(time.Since(b.start) / time.Millisecond)
}

// A payer is a client, as the options' functions see it. They are not called while a lock
// is held.
type payer struct {
	key     string // empty: its calls are free
	address string // empty if it is not known
}

// payer returns the client that sent r.
func (b *ClientBudget) payer(r *http.Request) payer {
	p := payer{key: b.key(r)}
	for _, client := range b.client {
		if p.key != "" && p.address == "" {
			p.address = client(r)
		}
	}
	return p
}

// pay takes n units from a client. Without a key there is no bill. It waits only in a fleet.
func (b *ClientBudget) pay(ctx context.Context, from payer, n int) (*bill, error) {
	if from.key == "" {
		return nil, nil
	}
	if most := int(b.burst.Load()); n > most {
		b.refused.Add(1)
		return nil, &limit.Error{Limiter: b.name, Reason: limit.TooMany, Units: n, Most: most}
	}
	if b.shared != nil {
		return b.payShared(ctx, from, n)
	}
	p := b.bill()
	if wait, ok, _ := b.take(from, n, p); !ok {
		b.refused.Add(1)
		wait = min(wait, math.MaxInt64/time.Millisecond)
		return nil, &limit.Error{Limiter: b.name, Reason: limit.RateExceeded, RetryAfter: wait * time.Millisecond}
	}
	return p, nil
}

// take is ClientLimiter.take for n tokens. wait is in milliseconds. at is the name under
// which the client counts: that of its key, or of its address if there is no place for it.
func (b *ClientBudget) take(from payer, n int, p *bill) (wait time.Duration, ok bool, at string) {
	now, at := b.now(), "client "+from.key
	_, wait, ok, room := b.table.ClaimN(from.key, int64(n), now, false, &p.Bill)
	switch {
	case room:
	case from.address != "":
		_, wait, ok, _ = b.shares.ClaimN(from.address, int64(n), now, true, &p.Bill)
		at = "address " + from.address
	default:
		_, wait, ok, _ = b.table.ClaimN(from.key, int64(n), now, true, &p.Bill)
	}
	return wait, ok, at
}

// ClientBudgetStats are the state and the counters of a ClientBudget, in units where
// nothing else is said.
type ClientBudgetStats struct {
	Clients  int    `json:"clients"`  // clients that are remembered
	Refused  uint64 `json:"refused"`  // calls
	Returned uint64 `json:"returned"` // estimated in excess
	Owed     uint64 `json:"owed"`     // missing in estimates
	Forgiven uint64 `json:"forgiven"` // missing, and not taken because of MaxDebt
	// Fleet: the instances count together; the counters are of this one's calls. Outage:
	// the Ledger does not respond.
	Fleet  bool `json:"fleet,omitempty"`
	Outage bool `json:"outage,omitempty"`
}

// Stats returns a snapshot.
func (b *ClientBudget) Stats() ClientBudgetStats {
	s := ClientBudgetStats{Refused: b.refused.Load(), Returned: b.sums.Returned.Load(), Owed: b.sums.Owed.Load(), Forgiven: b.sums.Forgiven.Load()}
	if b.shared != nil {
		all := b.shared.Stats()
		s = ClientBudgetStats{
			Refused: s.Refused + all.Refused.Total(), Returned: all.Returned, Owed: all.Owed, Forgiven: all.Forgiven,
			Fleet: true, Outage: all.Outage,
		}
	}
	s.Clients = b.table.Len()
	return s
}

// An invoice is what a request would pay if it started a call.
type invoice struct {
	budget *ClientBudget // nil: nothing
	from   payer
	units  int
}

// invoice returns that of r.
func (h *Handler) invoice(r *http.Request) invoice {
	b := h.o.ClientBudget
	if b == nil {
		return invoice{}
	}
	return invoice{b, b.payer(h.sent(r)), h.costs.estimate(r)}
}

// pay takes the units from the client, or returns an *overBudget.
func (i invoice) pay(ctx context.Context) (*bill, error) {
	if i.budget == nil {
		return nil, nil
	}
	p, err := i.budget.pay(ctx, i.from, i.units)
	if err != nil {
		if !errors.Is(err, limit.ErrLimited) {
			return nil, err
		}
		i.budget.over.add(i.from.address)
		return nil, &overBudget{error: err, units: i.units, client: true}
	}
	return p, nil
}

// ofClient reports whether err is a refusal by a limit of one client.
func ofClient(err error) bool {
	var over *overBudget
	return errors.As(err, &over) && over.client
}
