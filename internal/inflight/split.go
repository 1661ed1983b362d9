package inflight

import "slices"

// MoveLocked takes f out of a load of several keys, into one of its own that has
// the same values and its joiners, and returns that; the owner must run it
// as any other. It is for a key of which the owner finds out that it goes
// another way, before the function is called. The table's Splits must have been
// true when f was started, its load be closed (CloseLocked), not final, and not
// have run; f must not have been moved. The table's lock must be held.
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
