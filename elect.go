package weir

// elect reports whether a refresh of e, which may be nil, is due and the caller
// is the one to start it. However many callers ask at once, one is elected. Call
// it once per request: with RefreshBeta each call draws.
//
// While a refresh is in flight, the entry is due at farAhead. That must end with the
// refresh, or the entry would never be refreshed again:
//
//   - Until the caller has put a load into the table, or found one, the caller
//     can take the election back: see elections.
//   - From then on it belongs to the load, whose end resets the entry by
//     storing an entry, by postponeLocked, or by reelectLocked if neither has
//     happened.
func (g *Guard[K, V]) elect(e *entry[V], now instant) bool {
	if e == nil || e.kind == kindFailure || now >= e.staleUntil || g.closed.Load() {
		return false
	}
	due := e.due()
	if due == nil {
		return false
	}
	at := due.Load()
	return now >= at && e.draws(g.o.RefreshBeta, now) && due.CompareAndSwap(at, farAhead)
}

// elections are the refreshes that one caller was elected for and has not
// started yet.
type elections[K comparable, V any] struct {
	of []election[K, V]
}

type election[K comparable, V any] struct {
	key   K
	entry *entry[V]
	at    instant
}

func (e *elections[K, V]) add(key K, entry *entry[V], now instant) {
	e.of = append(e.of, election[K, V]{key, entry, now})
}

func (e *elections[K, V]) keys() []K {
	keys := make([]K, len(e.of))
	for i := range e.of {
		keys[i] = e.of[i].key
	}
	return keys
}

// takeBack lets other callers be elected. It is deferred.
func (e *elections[K, V]) takeBack() {
	for i := range e.of {
		e.of[i].takeBack()
	}
}

func (e *election[K, V]) takeBack() { e.entry.due().CompareAndSwap(farAhead, e.at) }

// reelectLocked lets callers be elected for key if no load of it is in flight
// any more. The table's lock must be held.
func (g *Guard[K, V]) reelectLocked(key K, now instant) {
	e := g.lookup(key)
	if e == nil || e.kind == kindFailure || g.flights.FindLocked(key) != nil {
		return
	}
	if due := e.due(); due != nil {
		due.CompareAndSwap(farAhead, now)
	}
}
