package weirtest

import (
	"context"
	"slices"
	"sync"

	"github.com/weir-go/weir"
)

// A Recorder is a [weir.Observer] that keeps all its calls. The zero Recorder
// is ready to use. It is safe for concurrent use, by several Guards too (see
// weir.Options.Name), and must not be copied after first use.
//
// A Guard reports the end of a load a moment after it has woken the callers. In
// a bubble call synctest.Wait before looking.
type Recorder struct {
	mu     sync.Mutex
	loads  []*Load      // guarded by mu
	waits  []weir.Wait  // guarded by mu
	events []weir.Event // guarded by mu
}

var _ weir.Observer = (*Recorder)(nil)

// A Load is what a Recorder has received about one load.
type Load struct {
	weir.LoadInfo
	Ended bool         // End is there
	End   weir.LoadEnd // zero until then
}

// recorderKey finds a Recorder's note of a load in the load's context.
type recorderKey struct{ r *Recorder }

// LoadStart notes a load.
func (r *Recorder) LoadStart(ctx context.Context, info weir.LoadInfo) context.Context {
	l := &Load{LoadInfo: info}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads = append(r.loads, l)
	return context.WithValue(ctx, recorderKey{r}, l)
}

// LoadEnd notes the end of the load whose LoadStart returned ctx, or a context
// that ctx descends from.
func (r *Recorder) LoadEnd(ctx context.Context, info weir.LoadInfo, end weir.LoadEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := ctx.Value(recorderKey{r}).(*Load)
	if !ok { // the Recorder heard nothing of its start
		l = &Load{LoadInfo: info}
		r.loads = append(r.loads, l)
	}
	l.Ended, l.End = true, end
}

// Waited notes a wait.
func (r *Recorder) Waited(_ context.Context, w weir.Wait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waits = append(r.waits, w)
}

// Event notes an event.
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

// Events returns a copy of the events so far that are of one of the kinds, in
// their order; without kinds, of all of them.
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

// Reset forgets everything. A load that runs meanwhile is not heard of again.
func (r *Recorder) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loads, r.waits, r.events = nil, nil, nil
}
