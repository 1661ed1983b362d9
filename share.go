package weir

import (
	"context"
	"errors"
	"time"

	"github.com/weir-go/weir/fleet"
	"github.com/weir-go/weir/internal/fleetclient"
	"github.com/weir-go/weir/internal/inflight"
)

// A fleetLookup is a load's state in the fleet for one of its keys.
type fleetLookup[V any] struct {
	sub   *fleetclient.Subscription
	asked instant             // when the request for the answer below was sent
	age   time.Duration       // how old the answer was then, if it was pushed
	first *fleetclient.Answer // an answer already received, by the load from which this one was split off
	grant uint64              // the fence of a lease that was granted but is not held yet, which closeLookups gives up; 0: none

	lease *fleetclient.Lease // nil: there is none
	stop  func() bool        // stops the hook that gives up the lease when the load is given up
	prior *entry[V]          // the Tier's entry, too old to be served; nil: none

	refused bool // the Tier did not take the result
}

// share asks the fleet for the load's keys, and reports whether to call the
// function: for keys whose lease this instance has, and keys that it loads
// without the fleet. Keys that are answered, or have to wait, continue as
// separate loads.
func (r *run[K, V]) share() bool {
	if r.g.fleet == nil || len(r.lookups) > 0 && r.lookups[0].lease != nil {
		return true
	}
	flights := r.l.Flights()
	if r.lookups == nil {
		r.lookups = make([]fleetLookup[V], len(flights))
		for i, f := range flights {
			r.lookups[i].sub = r.g.subscribe(f.Key)
		}
	}
	if len(flights) > 1 {
		return r.shareMany()
	}
	return r.shareOne(flights[0].Key, &r.lookups[0])
}

// ask returns the load's request to the fleet for key.
func (r *run[K, V]) ask(key K) fleet.Ask {
	switch {
	case r.l.Forced:
		return fleet.Ask{NewerThan: fleet.AnyFence}
	case r.l.Background(), r.l.Renews:
		if e := r.g.lookup(key); e != nil {
			return fleet.Ask{NewerThan: e.fence()}
		}
	}
	return fleet.Ask{}
}

// shareOne is share for one key: it asks the Tier, and takes the step that
// fleetclient.Decide returns, until that is an answer or a load.
func (r *run[K, V]) shareOne(key K, p *fleetLookup[V]) bool {
	ask := r.ask(key)
	for {
		a, err := r.askNext(p, ask)
		switch {
		case r.l.Err() != nil:
			return false
		case err != nil:
			r.g.count.alone.Add(1)
			return true
		}
		if a.Grant == fleet.GrantLease && p.sub.Overtaken(a.Fence) {
			p.sub.Hold(a.Fence, nil).GiveUp(fleet.Outcome{}) // lost before we held it
			p.grant = 0
			continue
		}
		e := r.g.received(a, p.asked)
		switch fleetclient.Decide(a.Answer, fleetclient.View{Fresh: e != nil, Stale: r.servesStale(e)}) {
		case fleetclient.LoadAlone:
			r.g.count.alone.Add(1)
			return true
		case fleetclient.Load:
			p.prior = e
			r.fallBackOn(0, e)
			return r.hold(p, a.Fence)
		case fleetclient.Serve:
			r.answerFromTier(e)
			return false
		case fleetclient.ServeAndLoad:
			r.answerFromTier(e)
			r.handOver, p.grant = a.Fence, 0
			return false
		case fleetclient.Fail:
			r.fallBackOn(0, e)
			r.failAs(a)
			return false
		case fleetclient.AskPast:
			ask = fleet.Ask{NewerThan: a.Entry.Fence}
		case fleetclient.Wait:
			r.fallBackOn(0, e)
			r.leavePlace()
			if p.sub.Await(r.l, a.Remaining) != nil {
				return false
			}
			ask.Joined, ask.NewerThan = a.Fence, min(ask.NewerThan, a.Fence-1)
		}
	}
}

// askNext asks the Tier once, unless p has a first answer.
func (r *run[K, V]) askNext(p *fleetLookup[V], ask fleet.Ask) (fleetclient.Answer, error) {
	if a := p.first; a != nil {
		p.first = nil
		return *a, nil
	}
	p.asked = r.g.clock()
	a, err := p.sub.Ask(r.l, ask)
	p.granted(a, err)
	return a, err
}

// granted records the age of an answer and its lease, if it has one, before anything
// else uses the answer.
func (p *fleetLookup[V]) granted(a fleetclient.Answer, err error) {
	p.age = a.Age
	if err == nil && a.Grant == fleet.GrantLease {
		p.grant = a.Fence
	}
}

// servesStale reports whether to serve e, which may be nil, now instead of
// waiting.
func (r *run[K, V]) servesStale(e *entry[V]) bool {
	return e != nil && !r.l.Background() && !r.l.Forced && !r.l.Renews && e.kind == kindValue && r.g.clock() < e.staleUntil
}

// answerFromTier makes e the load's answer.
func (r *run[K, V]) answerFromTier(e *entry[V]) {
	r.l.Return()
	r.ended = r.g.clock()
	if cost := r.g.estimate(r.l.Flights()[0].Key); cost > 0 {
		r.g.count.costFleet.Add(uint64(cost))
		r.costs = []int{cost}
	}
	a := answer[V]{entry: e, tags: tagNames(e.extra.tags), fromTier: true}
	e.extra.tags = nil
	a.keep = e.kind == kindValue && r.ended < e.errorUntil || r.ended < e.freshUntil
	a.heavy = r.g.o.MaxWeight > 0 && uint64(e.weight) > r.g.o.MaxWeight
	a.keep = a.keep && !a.heavy
	r.one = a
}

// failAs fails the load with another instance's failure.
func (r *run[K, V]) failAs(a fleetclient.Answer) {
	r.l.Return()
	r.ended = r.g.clock()
	r.err = remoteFailure(a.Failure, a.Remaining)
	r.class = classify(nil, r.err)
	r.cools = a.Remaining
}

// hold holds a lease until the load is final. It returns false if the load is
// final already.
func (r *run[K, V]) hold(p *fleetLookup[V], fence uint64) bool {
	g, l := r.g, r.l
	var lost func()
	if g.fleet.o.CancelLost {
		lost = func() { g.fail(l, ErrLeaseLost) }
	}
	p.lease, p.grant = p.sub.Hold(fence, lost), 0
	g.flights.Lock()
	final := l.FinalLocked()
	if len(l.Flights()) == 1 {
		l.Fence = fence
	}
	g.flights.Unlock()
	p.stop = context.AfterFunc(l, func() { p.lease.GiveUp(r.givenUp()) })
	return !final
}

// givenUp returns the outcome that the fleet gets for a load that became final
// while its function runs.
func (r *run[K, V]) givenUp() fleet.Outcome {
	var late *TimeoutError
	if cause := context.Cause(r.l); errors.As(cause, &late) {
		return r.g.fleet.failure(cause, ClassTransient, 0)
	}
	return fleet.Outcome{}
}

// fail ends l with err while its function runs.
func (g *Guard[K, V]) fail(l *inflight.Load[K, outcome[V]], err error) {
	g.flights.Lock()
	first := l.FailLocked(err)
	g.flights.Unlock()
	if first {
		l.End(err)
	}
}

// fallBackOn puts e, the entry of the ith flight's key, into memory in case the
// load fails, unless memory has one that is as new. e may be nil.
func (r *run[K, V]) fallBackOn(i int, e *entry[V]) {
	g, f := r.g, r.l.Flights()[i]
	now := g.clock()
	if !e.servesOnError(now) {
		return
	}
	c := e.demoted(now)
	tags := tagNames(e.extra.tags)
	g.flights.Lock()
	defer g.flights.Unlock()
	had := g.lookup(f.Key)
	if r.l.FinalLocked() || f.SupersededLocked() || g.clearing > 0 || had.replaces(e) || r.lookups[i].sub.Overtaken(e.fence()) {
		return
	}
	if had != nil && had.extra != nil {
		c.extra.memo = had.extra.memo // the source is the same
	}
	c.extra.tags = nil
	c.setTags(g.internLocked(tags), r.l.Seq)
	if !c.overtakenLocked() {
		g.store.Set(f.Key, c)
	}
}

// shareMany is share for several keys. The keys to call the function for stay
// in the load.
func (r *run[K, V]) shareMany() bool {
	g := r.g
	flights := r.l.Flights()
	answers, errs := r.askAll()
	var moved []*run[K, V]
	var lost []*inflight.Load[K, outcome[V]]
	stay := r.lookups[:0:0]
	priors := make([]*entry[V], len(flights)) // decoded without the lock, by the user's codec
	stale := make([]bool, len(flights))
	for i := range flights {
		if errs[i] == nil && answers[i].Grant == fleet.GrantLease {
			priors[i] = g.received(answers[i], r.lookups[i].asked)
			stale[i] = r.servesStale(priors[i])
		}
	}
	g.flights.Lock()
	final := r.l.FinalLocked()
	for i, f := range append([]*inflight.Flight[K, outcome[V]](nil), flights...) {
		a, p := answers[i], r.lookups[i]
		next := fleetclient.LoadAlone
		if errs[i] == nil {
			next = fleetclient.Decide(a.Answer, fleetclient.View{Stale: stale[i]})
		}
		if final || next == fleetclient.LoadAlone || next == fleetclient.Load {
			p.prior = priors[i]
			stay = append(stay, p)
			continue
		}
		p.first = &a
		l := f.MoveLocked()
		f.Value.crowd.Move(&l.Call)
		m := g.newRun(l)
		m.lookups = []fleetLookup[V]{p}
		moved = append(moved, m)
		if r.l.Background() {
			g.refreshing++
		}
		// The callers of the other keys have kept it from being abandoned.
		if l.DesertedLocked(g.o.AbandonGrace) {
			lost = append(lost, l)
		}
	}
	// And the callers of the keys that were split off have kept the rest from it.
	if len(moved) > 0 && len(stay) > 0 && r.l.DesertedLocked(g.o.AbandonGrace) {
		lost, final = append(lost, r.l), true
	}
	g.flights.Unlock()
	for _, l := range lost {
		l.End(ErrAbandoned)
	}
	r.lookups = stay
	for _, m := range moved { // also those that were abandoned: their runs give up what they have
		go m.l.Run()
	}
	for i := range r.lookups {
		switch p := &r.lookups[i]; {
		case p.grant == 0, final:
		default:
			r.fallBackOn(i, p.prior)
			final = !r.hold(p, p.grant)
		}
	}
	if len(stay) == 0 {
		r.l.Return()
		r.ended, r.many = g.clock(), []answer[V]{}
	}
	return !final && len(stay) > 0
}

// askAll asks for all keys, several at a time.
func (r *run[K, V]) askAll() ([]fleetclient.Answer, []error) {
	flights := r.l.Flights()
	answers, errs := make([]fleetclient.Answer, len(flights)), make([]error, len(flights))
	asks := make([]fleet.Ask, len(flights))
	for i, f := range flights {
		asks[i] = r.ask(f.Key)
	}
	atOnce(len(flights), func(i int) {
		p := &r.lookups[i]
		p.asked = r.g.clock()
		answers[i], errs[i] = p.sub.Ask(r.l, asks[i])
		p.granted(answers[i], errs[i])
	})
	for _, err := range errs {
		if err != nil {
			r.g.count.alone.Add(1)
		}
	}
	return answers, errs
}

// awaitBatch waits for a place for bulk loads, if these are limited and the load
// has none.
func (r *run[K, V]) awaitBatch() bool {
	g, l := r.g, r.l
	if g.batches == nil || l.Group != nil {
		return true
	}
	g.flights.Lock()
	if l.FinalLocked() {
		g.flights.Unlock()
		return false
	}
	l.Group = g.batches.SendLocked(l)
	lost := g.strandedLocked() // the places may have become stuck while the load waited elsewhere
	g.flights.Unlock()
	g.dismiss(lost)
	return r.gather() && r.depart()
}

// leavePlace gives up the load's place for bulk loads while it waits for another
// instance; awaitBatch gets a new one. If it kept it, loads could wait in a circle:
//
//	A: has a place, and waits for the lease of k, which B holds
//	B: has the lease of k, and waits for a place: it was split off a bulk load
//
// A and B may be loads of one instance, or of several in a longer circle.
func (r *run[K, V]) leavePlace() {
	g, l := r.g, r.l
	if l.Group == nil {
		return
	}
	g.flights.Lock()
	defer g.flights.Unlock()
	g.batches.EndLocked(l.Group)
	l.Group = nil
}

// settleLeases reports the outcomes of the load's keys, from the ith on, to the
// fleet. The rest is deferred because the user's codec may exit.
func (r *run[K, V]) settleLeases(i int) {
	for i < len(r.lookups) && r.lookups[i].lease == nil {
		i++
	}
	if i == len(r.lookups) {
		return
	}
	defer r.settleLeases(i + 1)
	p := &r.lookups[i]
	defer p.lease.GiveUp(fleet.Outcome{}) // without effect after Settle
	p.stop()
	if r.l.Err() != nil {
		p.lease.GiveUp(r.givenUp())
		return
	}
	taken, err := p.lease.Settle(r.fleetOutcome(i))
	p.refused = !taken && err == nil
}

// closeLookups ends the subscriptions of the load's keys, and gives up the leases
// that were granted but are not held.
func (r *run[K, V]) closeLookups() {
	for i := range r.lookups {
		p := &r.lookups[i]
		if p.grant > 0 {
			p.sub.Hold(p.grant, nil).GiveUp(fleet.Outcome{})
		}
		if p.sub != nil {
			p.sub.Close()
		}
	}
}

// fleetOutcome returns the outcome that the fleet gets for the ith key.
func (r *run[K, V]) fleetOutcome(i int) (o fleet.Outcome) {
	g, t := r.g, r.g.fleet
	defer func() {
		if recover() != nil {
			g.count.panics.Add(1)
			o = t.unshared()
		}
	}()
	if r.err != nil {
		if r.ctx == nil && r.class == ClassOverload {
			return fleet.Outcome{} // refused here, by our own limiter
		}
		return t.failure(r.err, r.class, g.o.pause(r.err))
	}
	a := r.of(i)
	if a.err != nil {
		return t.failure(a.err, a.class, g.o.pause(a.err))
	}
	if a.noStore {
		return t.unshared()
	}
	e, err := t.share(a.entry, a.tags, r.tagSeq, g.clock)
	if err != nil {
		g.count.unencoded.Add(1)
		return t.unshared()
	}
	if a.entry.extra == nil {
		a.entry.extra = &extra{}
	}
	a.entry.extra.fence = r.lookups[i].lease.Fence()
	return fleet.Outcome{Entry: e}
}

// overtakenElsewhere reports whether the fleet knows of a change newer than the
// ith answer, which is about to be committed. The table's lock must be held.
func (r *run[K, V]) overtakenElsewhere(i int, e *entry[V]) bool {
	if len(r.lookups) == 0 {
		return false
	}
	p := &r.lookups[i]
	return p.refused || p.sub.Overtaken(e.fence())
}

// goOnLocked starts the background load that takes over the lease of a load that
// was answered with a stale value. The table's lock must be held, and the run's
// own load must be settled; counts means that it was not given up before.
func (r *run[K, V]) goOnLocked(counts bool) {
	g := r.g
	if r.handOver == 0 || !counts || g.closed.Load() || g.refreshing >= g.o.MaxRefreshes || g.hungLocked() {
		return
	}
	f := r.l.Flights()[0]
	if f.SupersededLocked() || f.Value.late > 0 || g.flights.FindLocked(f.Key) != nil {
		return
	}
	l := g.flights.StartLocked(r.l.Values(), f.Key, true)
	l.Seq = r.l.Seq
	l.Flights()[0].Began = g.clock()
	g.refreshing++
	if g.lookup(f.Key) == f.Value.entry {
		f.Value.entry.refreshFrom.Store(farAhead)
	}
	r.next = g.newRun(l)
}

// goOn hands the lease and its subscription to the load that goOnLocked started, or
// gives the lease up if there is none.
func (r *run[K, V]) goOn() {
	switch {
	case r.handOver == 0:
	case r.next == nil:
		r.lookups[0].sub.Hold(r.handOver, nil).GiveUp(fleet.Outcome{})
	default:
		p := fleetLookup[V]{sub: r.lookups[0].sub, asked: r.lookups[0].asked, prior: r.one.entry}
		r.lookups = nil // the next load closes the subscription
		r.next.lookups = []fleetLookup[V]{p}
		r.next.hold(&r.next.lookups[0], r.handOver)
		go r.next.l.Run()
	}
}
