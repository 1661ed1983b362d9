package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/fleet/internal/bucket"
	"github.com/weir-go/weir/internal/wait"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// KeyedBudgetOptions configure a KeyedBudget.
type KeyedBudgetOptions struct {
	// Name is reported as limit.Error.Limiter.
	Name string
	// Namespace is the namespace in which the engine counts: KeyedBudgets with the same one
	// share the units of each key.
	Namespace string
	// Rate, MaxDebt, OnFailure, Instances, Retry and Timeout are for each key: see
	// BudgetOptions.
	Rate      fleet.Rate
	MaxDebt   int
	OnFailure FailureMode
	Instances int
	Retry     time.Duration
	Timeout   time.Duration
	// Keys is how many keys an instance counts during an outage. It forgets the least
	// recently used ones, which begin without units again. 0 means 100,000, at most 2^30.
	// Each takes about 350 bytes until the outage is over.
	Keys int
}

// terms returns the options of the budget of each key.
func (o KeyedBudgetOptions) terms() BudgetOptions {
	return BudgetOptions{
		Name: o.Name, Key: fleet.Key{Namespace: o.Namespace}, Rate: o.Rate, MaxDebt: o.MaxDebt,
		OnFailure: o.OnFailure, Instances: o.Instances, Retry: o.Retry, Timeout: o.Timeout,
	}
}

func (o KeyedBudgetOptions) validate(l fleet.Ledger) error {
	f := option.Faults{Package: "quota"}
	terms := o.terms()
	terms.Key = fleet.Key{}
	f.Adopt("KeyedBudgetOptions.", "BudgetOptions.", terms.validate(l))
	f.Check(len(o.Namespace) <= fleet.MaxName, "KeyedBudgetOptions.Namespace", fmt.Sprintf("%d bytes long", len(o.Namespace)), "at most 4096")
	f.Check(o.Keys >= 0 && o.Keys <= 1<<30, "KeyedBudgetOptions.Keys", o.Keys, "from 1 to 2^30, or 0 for the default")
	return f.Err()
}

// A KeyedBudget is a limit on units of cost for each of many keys, such as the clients of a
// gateway, that the whole fleet counts together. For each key it works like a [Budget] and
// has the same bound, but callers do not wait for units.
//
// The engine gets a digest of a key, never the key: SHA-256 of it and the Namespace. A
// reader of the engine can test guesses. A key takes memory there only until all its units have
// come back. An instance remembers nothing of a key, but during outages.
//
// An outage is one of the engine, and so of all keys. With FailLocalShare each key has no
// units when an outage begins. Otherwise a client could spend the units of keys that it invents.
//
// Create one with [NewKeyedBudget]; the zero KeyedBudget is not usable. It is safe for
// concurrent use. It has a goroutine during each call of the engine, and Close waits for
// them.
type KeyedBudget struct {
	teller

	begun  uint64                   // guarded by mu, as all below; the outage of shares
	shares map[fleet.Key]*shareLine // the keys' local shares
	ring   shareLine                // its next is the most recently used line
}

// A shareLine is the local share of one key during an outage.
type shareLine struct {
	bucket.Bucket
	key        fleet.Key
	prev, next *shareLine
}

// keptByKey is Correction.Keep of a KeyedBudget: there may be many keys, and each has few
// calls at once.
const keptByKey = 128

// NewKeyedBudget returns a KeyedBudget that counts in l. Its error joins a [*OptionError]
// for every option that is out of bounds. l must return soon after its context ends.
func NewKeyedBudget(l fleet.Ledger, o KeyedBudgetOptions) (*KeyedBudget, error) {
	if err := o.validate(l); err != nil {
		return nil, err
	}
	b, terms := new(KeyedBudget), o.terms().withDefaults()
	b.open(l, &terms, o.keys(), keptByKey)
	return b, nil
}

func (o KeyedBudgetOptions) keys() int {
	if o.Keys == 0 {
		return defaultKeys
	}
	return o.Keys
}

// AcquireN takes n units of key. It waits for the engine's response, for at most Timeout,
// and not for units. It panics if n is below 1.
//
// A caller that cannot have them is refused: with limit.RateExceeded and the time until
// there are enough units if no call takes any, or with limit.TooMany if n is above Burst.
// During an outage with FailClosed it returns an [*OutageError]. It returns
// context.Cause(ctx) if ctx is done, and ErrLimiterClosed after Close.
//
// The Permit can be settled. The engine learns of the cost when the Permit is released:
// Release does not wait for it.
func (b *KeyedBudget) AcquireN(ctx context.Context, key string, n int) (limit.Permit, error) {
	if n < 1 {
		panic(fmt.Sprintf("quota: AcquireN of %d units", n))
	}
	if ctx.Err() != nil {
		return limit.Permit{}, wait.Cause(ctx)
	}
	terms := b.terms.Load()
	if n > terms.Rate.Burst {
		return limit.Permit{}, b.tooMany(terms, n)
	}
	k := fleet.Key{Namespace: terms.Key.Namespace, Name: digest(terms.Key.Namespace, key)}
	p, after, err := b.try(ctx, terms, k, n)
	if isOutage(ctx, err) {
		p, after, err = b.without(terms, k, n, err)
	}
	if after > 0 {
		err = b.refusal(terms, limit.RateExceeded, after)
	}
	if err != nil {
		return limit.Permit{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.count.Admitted++
	if len(b.shares) > 0 && !b.health.failing.Load() {
		b.forgetLocked() // the outage is over
	}
	return p, nil
}

// without is try during an outage, as OnFailure says.
func (b *KeyedBudget) without(terms *BudgetOptions, k fleet.Key, n int, cause error) (p limit.Permit, after time.Duration, err error) {
	switch terms.OnFailure {
	case FailOpen:
		return limit.Permit{}, 0, nil
	case FailClosed:
		return limit.Permit{}, 0, b.outage(terms, cause)
	}
	outage, _ := b.health.outage()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.begun != outage {
		b.begun = outage
		b.forgetLocked()
	}
	r, perNano := terms.local()
	units, line := min(n, r.Burst), b.lineLocked(k, r)
	line.Pass(b.now(), perNano)
	mark, retryAfter, ok := line.Spend(r.Burst, units)
	if !ok {
		return limit.Permit{}, max(1, retryAfter), nil
	}
	p = settled(units, func(cost int) {
		b.mu.Lock()
		defer b.mu.Unlock()
		terms := b.terms.Load()
		r, perNano := terms.local()
		line.Pass(b.now(), perNano)
		line.Correct(r.Burst, terms.MaxDebt/max(1, terms.Instances), mark, units, cost, keptByKey)
	})
	p.Settle(n)
	return p, 0, nil
}

// local returns the burst of an instance's local share, and the units that come back there
// in a nanosecond.
func (o *BudgetOptions) local() (fleet.Rate, float64) {
	n := max(1, o.Instances)
	return fleet.Rate{Burst: max(1, o.Rate.Burst/n)}, (float64(o.Rate.Permits) / float64(o.Rate.Per)) / float64(n)
}

// forgetLocked forgets all local shares. b.mu must be held.
func (b *KeyedBudget) forgetLocked() {
	b.shares = nil
	b.ring.prev, b.ring.next = &b.ring, &b.ring
}

// lineLocked returns the local share of k as the most recently used one. A new one begins
// without units, so that nothing is gained if one is forgotten. b.mu must be held.
func (b *KeyedBudget) lineLocked(k fleet.Key, r fleet.Rate) *shareLine {
	l := b.shares[k]
	if l == nil {
		if b.shares == nil {
			b.forgetLocked()
			b.shares = make(map[fleet.Key]*shareLine)
		}
		for int64(len(b.shares)) >= max(1, b.keys.Load()) {
			oldest := b.ring.prev
			oldest.prev.next, oldest.next.prev = oldest.next, oldest.prev
			delete(b.shares, oldest.key)
		}
		l = &shareLine{Bucket: bucket.New(float64(r.Burst), b.now()), key: k}
		b.shares[k] = l
	} else {
		l.prev.next, l.next.prev = l.next, l.prev
	}
	l.prev, l.next = &b.ring, b.ring.next
	l.prev.next, l.next.prev = l, l
	return l
}

// Update replaces the options of b, except its Name and its Namespace; see Budget.Update.
func (b *KeyedBudget) Update(o KeyedBudgetOptions) error {
	f := option.Faults{Package: "quota"}
	was := b.terms.Load()
	f.Check(o.Name == was.Name, "KeyedBudgetOptions.Name", o.Name, "the one it was made with")
	f.Check(o.Namespace == was.Key.Namespace, "KeyedBudgetOptions.Namespace", o.Namespace, "the one it was made with")
	f.Add(o.validate(b.ledger))
	if err := f.Err(); err != nil {
		return err
	}
	terms := o.terms().withDefaults()
	b.terms.Store(&terms)
	b.keys.Store(int64(o.keys()))
	return nil
}

// Stats returns a snapshot of the totals over all keys. Left, Queued and Waited are 0.
func (b *KeyedBudget) Stats() BudgetStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.count
	s.Outages, s.Outage = b.health.outage()
	return s
}

// Close refuses all callers with ErrLimiterClosed. It waits for requests and corrections in
// flight until ctx ends, and then returns the cause of ctx. Permits that are released later
// are not settled. It may be called again.
func (b *KeyedBudget) Close(ctx context.Context) error { return b.close(ctx) }
