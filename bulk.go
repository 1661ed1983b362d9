package weir

// callMany is call for LoadMany and LoadEntries. It turns each result into an
// entry as if its key had been loaded alone.
func (r *run[K, V]) callMany() {
	flights := r.l.Flights()
	var held []*entry[V] // of each flight, for LoadEntries
	if r.g.src.LoadEntries != nil {
		held = make([]*entry[V], len(flights))
		for i := range flights {
			held[i] = r.held(i)
		}
	}
	keys, prev := r.keys(held)
	find, err := r.loadMany(keys, prev)
	r.returned()
	says := judge[K](err)
	r.many = make([]answer[V], len(flights))
	for i, f := range flights {
		in, ok := find(f.Key)
		var before *entry[V]
		if held != nil {
			before = held[i]
		}
		r.costing(i, in.Cost)
		r.many[i] = r.answer(f.Key, in, before, says.of(f.Key, ok))
	}
}

// loadMany calls the user's function. find returns what it loaded for
// a key.
func (r *run[K, V]) loadMany(keys []K, prev []Previous[V]) (find func(K) (Entry[V], bool), err error) {
	if load := r.g.src.LoadEntries; load != nil {
		entries, err := load(r.ctx, keys, prev)
		return func(key K) (Entry[V], bool) { in, ok := entries[key]; return in, ok }, err
	}
	values, err := r.g.src.LoadMany(r.ctx, keys)
	return func(key K) (Entry[V], bool) { v, ok := values[key]; return Entry[V]{Value: v}, ok }, err
}

// keys returns the distinct keys of the load. If held has an entry for each
// flight, it also returns the previous value of each key.
func (r *run[K, V]) keys(held []*entry[V]) (keys []K, prev []Previous[V]) {
	flights := r.l.Flights()
	keys = make([]K, 0, len(flights))
	var seen map[K]bool
	if r.repeats {
		seen = make(map[K]bool, len(flights))
	}
	for i, f := range flights {
		if r.repeats {
			if seen[f.Key] {
				continue
			}
			seen[f.Key] = true
		}
		keys = append(keys, f.Key)
		if held != nil {
			prev = append(prev, r.previous(held[i]))
		}
	}
	return keys, prev
}

// held returns the entry that memory or the fleet has for the key of the ith flight, the
// newer one if both do; nil if neither has one.
func (r *run[K, V]) held(i int) *entry[V] {
	e := r.g.lookup(r.l.Flights()[i].Key)
	if len(r.lookups) == 0 || r.lookups[i].prior == nil || e.replaces(r.lookups[i].prior) && e.kind != kindFailure {
		return e
	}
	return r.lookups[i].prior
}

// previous returns what the function receives about e, which may be nil.
func (r *run[K, V]) previous(e *entry[V]) Previous[V] {
	p := e.previous(r.g.clock())
	if p.OK {
		p.Value = r.g.clone(p.Value)
	}
	return p
}
