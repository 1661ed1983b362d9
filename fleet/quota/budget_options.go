package quota

import (
	"cmp"
	"fmt"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// BudgetOptions configure a Budget.
type BudgetOptions struct {
	// Name is reported as limit.Error.Limiter.
	Name string
	// Key is where the engine counts. Budgets with the same Key share it.
	Key fleet.Key
	// Rate is the limit of the whole fleet: Permits units come back in Per. Permits and
	// Per are required, up to 2^30 and 366 days. A Burst of 0 means Permits. All instances
	// must have the same Rate and MaxDebt.
	Rate fleet.Rate
	// MaxDebt is how many units the fleet may owe after calls that cost more than their
	// estimate. The rest is forgiven, and counted. 0 means Burst, negative none.
	MaxDebt int

	// OnFailure decides what to do while the engine is unreachable. Required.
	OnFailure FailureMode
	// Instances is the maximum number of instances, for FailLocalShare, from 1 to 10,000.
	Instances int
	// Retry is how long the engine is not called after an outage begins. 0 means one
	// second; at least 1 ms.
	Retry time.Duration
	// Timeout is how long a call of the engine may take. 0 means one second.
	Timeout time.Duration

	// Queue is how many callers of this instance may wait for units. 0 means 1024,
	// negative none.
	Queue int
	// MaxWait is how long they may wait. 0 means 10 s, negative means that only the
	// caller's deadline counts.
	MaxWait time.Duration
}

func (o BudgetOptions) validate(l fleet.Ledger) error {
	f := option.Faults{Package: "quota"}
	const in = "BudgetOptions."
	f.Check(l != nil, "Ledger", l, "one")
	f.Check(len(o.Key.Name) <= fleet.MaxName && len(o.Key.Namespace) <= fleet.MaxName, in+"Key", fmt.Sprintf("%d and %d bytes long", len(o.Key.Namespace), len(o.Key.Name)), "at most 4096 each")
	f.Check(o.Rate.Permits >= 1 && o.Rate.Permits <= maxRatePermits, in+"Rate.Permits", o.Rate.Permits, "from 1 to 2^30")
	f.Check(o.Rate.Per > 0 && o.Rate.Per <= maxRatePer, in+"Rate.Per", o.Rate.Per, "above 0, at most 366 days")
	f.Check(o.Rate.Burst >= 0 && o.Rate.Burst <= maxRatePermits, in+"Rate.Burst", o.Rate.Burst, "from 1 to 2^30, or 0 for the default")
	f.Check(o.MaxDebt <= limit.MaxUnits, in+"MaxDebt", o.MaxDebt, "at most 2^30")
	f.Check(o.OnFailure >= FailOpen && o.OnFailure <= FailLocalShare, in+"OnFailure", o.OnFailure, "FailOpen, FailClosed or FailLocalShare")
	f.Check(o.OnFailure != FailLocalShare || o.Instances >= 1 && o.Instances <= maxInstances, in+"Instances", o.Instances, "from 1 to 10000 with FailLocalShare")
	f.Check(o.Retry == 0 || o.Retry >= time.Millisecond, in+"Retry", o.Retry, "at least 1ms, or 0 for the default")
	f.Check(o.Timeout >= 0, in+"Timeout", o.Timeout, "above 0, or 0 for the default")
	return f.Err()
}

// withDefaults returns o with zeros replaced by their defaults. Without a queue, Queue is
// 0; without debt, MaxDebt is 0.
func (o BudgetOptions) withDefaults() BudgetOptions {
	o.Rate.Burst = cmp.Or(o.Rate.Burst, o.Rate.Permits)
	o.MaxDebt = max(0, cmp.Or(o.MaxDebt, o.Rate.Burst))
	o.Retry = cmp.Or(o.Retry, defaultRetry)
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	o.Queue = max(0, cmp.Or(o.Queue, 1024))
	if o.MaxWait = cmp.Or(o.MaxWait, 10*time.Second); o.MaxWait < 0 {
		o.MaxWait = forever
	}
	return o
}

// share returns the options of an instance's local share. Its Name is not shown.
func (o BudgetOptions) share() limit.RateOptions {
	n := max(1, o.Instances)
	s := limit.RateOptions{
		PerSecond: float64(o.Rate.Permits) / o.Rate.Per.Seconds() / float64(n), Burst: max(1, o.Rate.Burst/n), MaxDebt: o.MaxDebt / n, Queue: -1,
	}
	if s.MaxDebt == 0 {
		s.MaxDebt = -1
	}
	return s
}
