package weir

import "iter"

// All iterates over the keys in memory, each with the Result that [Guard.Peek] returns for
// it: values that may be served, fresh or stale, and negative entries. It loads nothing, does
// not count as a use of the entries, and in a fleet does not ask the Tier. The order is not
// defined.
//
// It is no snapshot. Each Result is as of the moment in which it is yielded, so a value that
// was invalidated before is not. An entry that is stored, replaced or removed during the
// iteration may be missed; no key is yielded twice. No lock is held during the loop's body: it
// may be slow, may call the Guard, and may end early. The memory that the iteration needs does
// not depend on the number of entries.
func (g *Guard[K, V]) All() iter.Seq2[K, Result[V]] {
	return func(yield func(K, Result[V]) bool) {
		for key := range g.store.All() {
			if r, ok := g.Peek(key); ok && !yield(key, r) {
				return
			}
		}
	}
}
