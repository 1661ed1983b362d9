package inflight

import "testing"

// check verifies the table and everything reachable from it. t.mu must be held.
func (t *Table[K, V]) check(tb testing.TB) {
	tb.Helper()
	for key, f := range t.flights {
		switch l := f.Load(); {
		case f.Key != key:
			tb.Errorf("flight of key %v is in the table as %v", f.Key, key)
		case l.table != t:
			tb.Errorf("flight of key %v is in the wrong table", key)
		case l.final:
			tb.Errorf("flight of key %v is in the table and final", key)
		case f.detached:
			tb.Errorf("flight of key %v is in the table and superseded", key)
		case l.prev == nil:
			tb.Errorf("flight of key %v is in the table, but its load is not in the ring", key)
		}
	}
	n := 0
	if t.live.next != nil {
		for l := t.live.next; l != &t.live; l = l.next {
			n++
			t.checkLoad(tb, l)
		}
	}
	if n != t.running {
		tb.Errorf("ring of %d loads; running is %d", n, t.running)
	}
}

// checkLoad verifies a load in the ring. t.mu must be held.
func (t *Table[K, V]) checkLoad(tb testing.TB, l *Load[K, V]) {
	tb.Helper()
	if l.next.prev != l || l.prev.next != l {
		tb.Errorf("ring is broken at the load of %v", l.keys())
	}
	if l.returned {
		tb.Errorf("load of %v has returned, but is in the ring", l.keys())
	}
	if !l.final && l.stop.Err() != nil {
		tb.Errorf("load of %v is canceled, but not final", l.keys())
	}
	ever, now := 0, 0
	for _, f := range l.flights {
		ever += int(f.joined)
		now += int(f.waiting)
		if f.Load() != l {
			tb.Errorf("flight of key %v belongs to another load", f.Key)
		}
		if in := t.flights[f.Key] == f; in != (!l.final && !f.detached) {
			tb.Errorf("flight of key %v: in the table %v, final %v, superseded %v", f.Key, in, l.final, f.detached)
		}
	}
	if l.joiners < 0 || l.joiners > ever || l.joiners != now {
		tb.Errorf("load of %v: %d joiners of %d, %d on its flights", l.keys(), l.joiners, ever, now)
	}
}

// checkWaitedFor adds a check that holds if abandoned loads are canceled at once:
// no unfinished load is without a joiner. t.mu must be held.
func (t *Table[K, V]) checkWaitedFor(tb testing.TB) {
	tb.Helper()
	for l := t.live.next; l != nil && l != &t.live; l = l.next {
		if !l.final && !l.pinned && l.joiners == 0 {
			tb.Errorf("load of %v continues, though no caller waits", l.keys())
		}
	}
}

// keys identifies l in messages.
func (l *Load[K, V]) keys() []K {
	var keys []K
	for _, f := range l.flights {
		keys = append(keys, f.Key)
	}
	return keys
}
