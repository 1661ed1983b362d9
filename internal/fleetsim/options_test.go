package fleetsim_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/fleet"
)

// simOptions is what a seed draws before its history begins.
type simOptions struct {
	calm      bool // no faults except delays of about a millisecond
	instances int
	keys      int
	many      bool // the source loads several keys at once
	breaker   bool // a fleet.Breaker is in front of the link

	ttl, swr, sie, negative time.Duration
	lease, cap, maxKeep     time.Duration
	cooling                 [2]time.Duration
	memo                    weir.Backoff
	loadTimeout             time.Duration
	softTimeout             time.Duration
	grace                   time.Duration
	refreshAhead            float64
	cancelLost              bool

	loss, slow, twice  float64 // probabilities for commands
	latePush, dropPush float64
	longLoads          float64
	failing            float64

	pushes bool // values are pushed

	actions []simAction
}

func simPick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// simDraw draws the options of a seed.
func simDraw(seed uint64) simOptions {
	r := rand.New(rand.NewPCG(seed, 0x77656972))
	o := simOptions{
		calm:      r.IntN(4) == 0,
		instances: 2 + r.IntN(4),
		keys:      1 + r.IntN(3),
		many:      r.IntN(5) == 0,
		ttl:       simPick(r, 300*ms, sec, 3*sec, 20*sec),
		swr:       simPick(r, 0, 0, 500*ms, 2*sec),
		sie:       simPick(r, 0, sec, 10*sec),
		negative:  simPick(r, 0, 400*ms, 2*sec),
		lease:     simPick(r, 150*ms, 400*ms, sec),
		cap:       simPick(r, 200*ms, 700*ms, 2*sec, 30*sec),
		maxKeep:   simPick(r, 2*sec, time.Minute),
		cooling:   simPick(r, [2]time.Duration{100 * ms, 100 * ms}, [2]time.Duration{100 * ms, sec}, [2]time.Duration{700 * ms, 2 * sec}),
		memo:      simPick(r, weir.Backoff{}, weir.Backoff{}, weir.Backoff{Initial: 300 * ms, Max: sec}),

		loadTimeout:  simPick(r, 600*ms, 2*sec, 5*sec),
		softTimeout:  simPick(r, 0, 0, 100*ms),
		grace:        simPick(r, 0, 0, 50*ms, weir.Never),
		refreshAhead: simPick(r, 0, 0, 0.5, 0.2),
		cancelLost:   r.IntN(3) == 0,
		longLoads:    simPick(r, 0, 0.02, 0.2),
		failing:      simPick(r, 0, 0.1, 0.4),
	}
	if !o.calm {
		o.loss = simPick(r, 0, 0.01, 0.05, 0.15)
		o.slow = simPick(r, 0, 0.01, 0.05, 0.1)
		o.twice = simPick(r, 0, 0.02, 0.1)
		o.latePush = simPick(r, 0, 0.05, 0.2)
		o.dropPush = simPick(r, 0, 0, 0.05, 0.3)
		o.breaker = r.IntN(4) == 0
	}
	o.drawActions(r)
	o.pushes = r.IntN(3) > 0
	return o
}

// guard returns the Options of an instance's Guard.
func (o *simOptions) guard(t fleet.Tier) weir.Options {
	return weir.Options{
		Name: "sim", TTL: o.ttl, StaleWhileRevalidate: o.swr, StaleIfError: o.sie, NegativeTTL: o.negative,
		RefreshAhead: o.refreshAhead, RefreshJitter: -1, RefreshRetry: 100 * ms,
		LoadTimeout: o.loadTimeout, SoftTimeout: o.softTimeout, AbandonGrace: o.grace,
		FailureMemo: weir.FailureMemo{Transient: o.memo},
		Fleet: weir.Fleet{
			Config: fleet.Config{Tier: t, Lease: o.lease, MemoryCap: o.cap, MaxKeep: max(o.maxKeep, o.ttl), Cooling: min(o.cooling[0], o.ttl), MaxCooling: o.cooling[1], PushValues: o.pushes}, CancelLost: o.cancelLost,
		},
	}
}

// A simAction is one event of a history.
type simAction struct {
	at   time.Duration
	kind simKind
	inst int
	key  int
	tag  int

	callers  int           // for a Get: number of callers, on this and the next instances
	nth      time.Duration // index of this caller
	patience time.Duration // patience of a caller; 0: unlimited
	lasts    time.Duration // duration of a fault
	quick    bool          // for a cut: commands fail at once
	half     bool          // for a cut: pushes only
}

type simKind uint8

const (
	simGet simKind = iota
	simGetMany
	simRefresh
	simTruth // the source's value changes without a notification
	simSet
	simInvalidate
	simExpire
	simInvalidateTags
	simClear
	simCrash
	simPause
	simCut
	simDrop
)

var simKinds = []string{"get", "get many", "refresh", "truth", "set", "invalidate", "expire", "invalidate tags", "clear", "crash", "pause", "cut", "drop pushes"}

// drawActions draws the history.
func (o *simOptions) drawActions(r *rand.Rand) {
	weights := []int{40, 5, 4, 6, 6, 8, 4, 4, 2}
	if !o.calm {
		weights = append(weights, 2, 3, 3, 2)
	}
	var bag []simKind
	for kind, n := range weights {
		bag = append(bag, slices.Repeat([]simKind{simKind(kind)}, n)...)
	}
	span := simPick(r, 500*ms, 2*sec, 6*sec)
	for range 10 + r.IntN(50) {
		a := simAction{
			at: time.Duration(r.Int64N(int64(span))), kind: simPick(r, bag...),
			inst: r.IntN(o.instances), key: r.IntN(o.keys), tag: r.IntN(2),
			callers: 1 + r.IntN(4)*r.IntN(2), lasts: simPick(r, 30*ms, 300*ms, 2*sec) + time.Duration(r.Int64N(int64(100*ms))),
			quick: r.IntN(2) == 0, half: r.IntN(3) == 0,
		}
		if r.IntN(6) == 0 {
			a.patience = time.Duration(1 + r.Int64N(int64(400*ms)))
		}
		o.actions = append(o.actions, a)
		if r.IntN(4) == 0 { // events coincide more often
			b := a
			b.kind, b.inst = simPick(r, bag...), r.IntN(o.instances)
			b.at += time.Duration(r.Int64N(int64(5 * ms)))
			o.actions = append(o.actions, b)
		}
	}
	slices.SortStableFunc(o.actions, func(a, b simAction) int { return int(a.at - b.at) })
}

// tagsOf returns the tags of a key's values.
func (o *simOptions) tagsOf(key string) []string {
	switch key {
	case "k0":
		return []string{"t0"}
	case "k1":
		return []string{"t0", "t1"}
	}
	return nil
}
