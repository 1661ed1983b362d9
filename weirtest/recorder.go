package weirtest

import (
	"context"
	"slices"
	"sync"

	"github.com/weir-go/weir"
)

// A Recorder is a [weir.Observer] that records all calls. The zero Recorder is ready
// to use. It is safe for concurrent use, including by several Guards (see
// weir.Options.Name), and must not be copied after first use.
//
// A Guard reports the end of a load shortly after it has woken the callers. In a
// bubble, call synctest.Wait before reading the Recorder.
type Recorder struct {
	mu     sync.Mutex
	loads  []*Load      // guarded by mu
	waits  []weir.Wait  // guarded by mu
	events []weir.Event // guarded by mu
}

var _ weir.Observer = (*Recorder)(nil)

// A Load is the record of one load.
type Load struct {
	weir.LoadInfo
	Ended bool         // End is set
	End   weir.LoadEnd // zero until then
}

// recorderKey is the key of a Recorder's *Load in the load's context.
type recorderKey struct{ r *Recorder }

// LoadStart records the start of a load.
func (r *Recorder) LoadStart(ctx context.Context, info weir.LoadInfo) context.Context {
	l := &Load{LoadInfo: info}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads = append(r.loads, l)
	return context.WithValue(ctx, recorderKey{r}, l)
}

// LoadEnd records the end of the load whose LoadStart returned ctx or an ancestor of
// it.
func (r *Recorder) LoadEnd(ctx context.Context, info weir.LoadInfo, end weir.LoadEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := ctx.Value(recorderKey{r}).(*Load)
	if !ok { // the Recorder did not see its start
		l = &Load{LoadInfo: info}
		r.loads = append(r.loads, l)
	}
	l.Ended, l.End = true, end
}

// Waited records a wait.
func (r *Recorder) Waited(_ context.Context, w weir.Wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = append(r.waits, w)
}

// Event records an event.
func (r *Recorder) Event(_ context.Context, e weir.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Loads returns a copy of the loads so far, in the order of their start.
func (r *Recorder) Loads() []Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	loads := make([]Load, len(r.loads))
	for i, l := range r.loads {
		loads[i] = *l
	}
	return loads
}

// Waits returns a copy of the waits so far, in the order of their end.
func (r *Recorder) Waits() []weir.Wait {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.waits)
}

// Events returns a copy of the events so far with one of the given kinds, in order.
// Without kinds it returns all events.
func (r *Recorder) Events(kinds ...weir.EventKind) []weir.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var events []weir.Event
	for _, e := range r.events {
		if len(kinds) == 0 || slices.Contains(kinds, e.Kind) {
			events = append(events, e)
		}
	}
	return events
}

// Reset deletes all records. If a load is running, its end is not recorded either.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads, r.waits, r.events = nil, nil, nil
}
