package jobs

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"

	"github.com/weir-go/weir/jobs/internal/journal"
)

// DefaultListLimit is how many jobs List returns by default.
const DefaultListLimit = 100

// A Filter selects the jobs that List returns. The zero Filter selects all.
type Filter struct {
	Queue  string  // empty: all queues
	States []State // nil: every state
	Limit  int     // zero and negative: DefaultListLimit
}

// List returns the Status of jobs without their logs, the most recently changed first. It
// reads the messages of the queue from the latest one back until it has enough jobs, so it
// reads all of them if fewer than Limit jobs match. It omits jobs that this program cannot
// read; Status returns the reason for such a job. It can miss jobs that change during the
// call.
func (s *Store) List(ctx context.Context, f Filter) ([]Status, error) {
	orDefault(&f.Queue, "*")
	if f.Limit <= 0 {
		f.Limit = DefaultListLimit
	}
	if f.Queue != "*" && !queueForm.MatchString(f.Queue) {
		return nil, nil
	}
	last, err := s.journal.Last(ctx)
	if err != nil {
		return nil, outward(ctx, err)
	}
	l := &listing{s: s, f: f, seen: make(map[jobName]bool), found: make(map[jobName]Status), open: make(map[jobName]*journal.Message)}
	for to, size := last, max(listWindow, 4*uint64(f.Limit)); to > 0; size *= 2 {
		from := to - min(to, size) + 1
		if err := l.window(ctx, from, to, false); err != nil {
			return nil, err
		}
		if l.enough(from) {
			clear(l.open) // older than the result
			break
		}
		to = from - 1
	}
	// A job that was changed after its window's turn, or before an older window's, has
	// left that window.
	if err := l.window(ctx, last+1, math.MaxUint64, true); err != nil {
		return nil, err
	}
	if err := l.resolve(ctx, len(l.open)); err != nil {
		return nil, err
	}
	found := slices.SortedFunc(maps.Values(l.found), func(a, b Status) int { return cmp.Compare(b.Revision, a.Revision) })
	return found[:min(len(found), f.Limit)], nil
}

const (
	// listWindow is how many sequence numbers List reads first.
	listWindow = 1024
	// listLookups is how many jobs List looks up after each window.
	listLookups = 256
)

type jobName struct{ queue, id string }

// A listing is one call of List. The windows that it reads get older.
type listing struct {
	s     *Store
	f     Filter
	seen  map[jobName]bool
	found map[jobName]Status

	// open has the states of unfinished jobs whose work items, which show that the jobs
	// exist, are in an older window, or missing.
	open map[jobName]*journal.Message
}

// window reads the messages of some sequence numbers. A job of which a newer message was
// read is not read again, unless these messages are newer than all of them.
func (l *listing) window(ctx context.Context, from, to uint64, newest bool) error {
	views := make(map[jobName]journal.View)
	err := l.s.journal.Between(ctx, l.f.Queue, from, to, func(m *journal.Message) {
		name := jobName{m.Queue, m.ID}
		if m.Kind != journal.Work && m.Kind != journal.State || !newest && l.seen[name] && l.open[name] == nil {
			return
		}
		m.Data = nil // not needed, and the total could be large
		v := views[name]
		if m.Kind == journal.Work {
			v.Work = m
		} else {
			v.State = m
		}
		views[name] = v
	})
	if err != nil {
		return outward(ctx, err)
	}
	for name, v := range views {
		if state := l.open[name]; state != nil && !newest {
			v.State = state // the one in this window is older
		}
		l.seen[name] = true
		delete(l.open, name)
		delete(l.found, name)
		one, ok, err := read(v)
		switch {
		case err != nil || !ok: // a job of a newer program must not hide all others
		case one.State == forgotten:
		case one.orphan():
			l.open[name] = v.State
		default:
			l.add(name, one)
		}
	}
	if newest {
		return nil
	}
	return l.resolve(ctx, listLookups)
}

// resolve looks up the latest n of the open jobs.
func (l *listing) resolve(ctx context.Context, n int) error {
	names := slices.SortedFunc(maps.Keys(l.open), func(a, b jobName) int { return cmp.Compare(l.open[b].Seq, l.open[a].Seq) })
	for _, name := range names[:min(n, len(names))] {
		one, _, err := l.s.lookAt(ctx, name.queue, name.id)
		if err != nil {
			return err
		}
		delete(l.open, name)
		if one != nil {
			l.add(name, one)
		}
	}
	return nil
}

func (l *listing) add(name jobName, one *life) {
	if l.f.States != nil && !slices.Contains(l.f.States, one.State) {
		return
	}
	s := one.status(name.queue, name.id, l.s.o.Durability)
	s.Log = nil // the total could be large
	l.found[name] = s
}

// enough reports whether no message before a sequence number, and no open job, can belong
// to the result. The revision of a job is that of its last message, or less: heartbeats
// do not count.
func (l *listing) enough(from uint64) bool {
	for _, m := range l.open {
		from = max(from, m.Seq+1)
	}
	n := 0
	for _, s := range l.found {
		if s.Revision >= from {
			n++
		}
	}
	return n >= l.f.Limit
}
