package inflight

import "slices"

// MoveLocked moves f, with its joiners, from a load of several keys into a
// separate load with the same values, and returns that load. The owner must run
// it like any other. It is for a key that turns out to need different handling
// before the function is called. The table's Splits must have been true when f
// was started, f's load must be closed (CloseLocked), not final, and not yet
// running, and f must not have been moved before. Both loads may have no callers then,
// see DesertedLocked. The table's lock must be held.
func (f *Flight[K, V]) MoveLocked() *Load[K, V] {
	from := f.Load()
	t := from.table
	i := slices.Index(from.flights, f)
	from.flights = slices.Delete(from.flights, i, i+1)
	from.joiners -= int(f.waiting)

	l := &Load[K, V]{flights: []*Flight[K, V]{f}, table: t, background: from.background, pinned: from.pinned, joiners: int(f.waiting)}
	l.Seq, l.Forced, l.Renews = from.Seq, from.Forced, from.Renews
	l.init(from.origin, l, &l.Call)
	l.prev, l.next = from, from.next
	l.prev.next, l.next.prev = l, l
	t.running++
	f.load.Store(l)
	close(f.moved)
	return l
}
