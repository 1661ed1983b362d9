package inflight

import (
	"context"
	"slices"

	"github.com/weir-go/weir/internal/gather"
)

var _ gather.Batch = (*Load[int, int])(nil)

// StartOpenLocked is StartLocked for a load to which flights can be added until
// CloseLocked. t.mu must be held.
func (t *Table[K, V]) StartOpenLocked(ctx context.Context, key K, pinned bool) *Load[K, V] {
	l := t.StartLocked(ctx, key, pinned)
	if t.Splits {
		l.flights[0].moved = make(chan struct{})
	}
	l.gathering.Store(true)
	return l
}

// AddLocked adds a flight for key to a gathering load, with the caller as its
// first joiner or without joiners. The table's lock must be held, OpenLocked must
// be true, and key must have no flight in the table. The load may already have a
// detached flight for key.
func (l *Load[K, V]) AddLocked(key K, joins bool) *Flight[K, V] {
	f := &Flight[K, V]{Key: key}
	f.load.Store(l)
	if l.table.Splits {
		f.moved = make(chan struct{})
	}
	l.flights = append(l.flights, f)
	l.table.flights[key] = f
	if joins {
		f.JoinLocked()
	}
	return f
}

// CloseLocked ends the gathering: the function is called for the flights added so
// far. The table's lock must be held.
func (l *Load[K, V]) CloseLocked() { l.gathering.Store(false) }

// OpenLocked reports whether flights can be added. The table's lock must be held.
func (l *Load[K, V]) OpenLocked() bool {
	return l.gathering.Load() && !l.final && !l.Ending()
}

// SizeLocked returns the number of flights. The table's lock must be held.
func (l *Load[K, V]) SizeLocked() int { return len(l.flights) }

// WantedLocked reports whether any caller waits. The table's lock must be held.
func (l *Load[K, V]) WantedLocked() bool { return l.joiners > 0 }

// forgoLocked removes f from its load if the load is still gathering and no
// caller waits for f any more. The table's lock must be held.
func (f *Flight[K, V]) forgoLocked() {
	l := f.Load()
	if f.waiting > 0 || l.pinned || !l.gathering.Load() {
		return
	}
	i := slices.Index(l.flights, f)
	l.flights = slices.Delete(l.flights, i, i+1)
	if !f.detached {
		delete(l.table.flights, f.Key)
	}
}
