package rig

import (
	"context"
	"fmt"
	"sync"

	"github.com/weir-go/weir"
)

// A Recorder is an Observer that records all calls.
type Recorder struct {
	Mu     sync.Mutex
	Starts []weir.LoadInfo
	Ends   []weir.LoadEnd
	EndCtx []context.Context
	Waits  []weir.Wait
	Waiter []any // values of WaitKey in the contexts of waits
	Events []weir.Event
}

type (
	// SpanKey is the context key of the span that LoadStart begins.
	SpanKey struct{}
	// WaitKey is the context key of what a test gives its caller.
	WaitKey struct{}
)

var _ weir.Observer = (*Recorder)(nil)

func (r *Recorder) LoadStart(ctx context.Context, l weir.LoadInfo) context.Context {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Starts = append(r.Starts, l)
	return context.WithValue(ctx, SpanKey{}, fmt.Sprint("span ", len(r.Starts)))
}

func (r *Recorder) LoadEnd(ctx context.Context, _ weir.LoadInfo, end weir.LoadEnd) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Ends, r.EndCtx = append(r.Ends, end), append(r.EndCtx, ctx)
}

func (r *Recorder) Waited(ctx context.Context, w weir.Wait) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Waits, r.Waiter = append(r.Waits, w), append(r.Waiter, ctx.Value(WaitKey{}))
}

func (r *Recorder) Event(_ context.Context, e weir.Event) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.Events = append(r.Events, e)
}

// Count returns how many events of a kind were recorded.
func (r *Recorder) Count(kind weir.EventKind) (n int) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	for _, e := range r.Events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
