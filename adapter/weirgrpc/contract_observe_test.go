package weirgrpc_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

type ownKey struct{}

// A tracer is an Observer that keeps all that it gets, and sets a value in the contexts.
type tracer struct {
	weir.NopObserver
	mu     sync.Mutex
	starts []weir.LoadInfo
	ends   []weir.LoadEnd
	waits  []weir.Wait
	events []weir.Event
	own    int // ends whose context has the value
}

func (o *tracer) LoadStart(ctx context.Context, l weir.LoadInfo) context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.starts = append(o.starts, l)
	return context.WithValue(ctx, ownKey{}, true)
}

func (o *tracer) LoadEnd(ctx context.Context, _ weir.LoadInfo, end weir.LoadEnd) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, end)
	if ctx.Value(ownKey{}) != nil && ctx.Err() == nil {
		o.own++
	}
}

func (o *tracer) Waited(_ context.Context, w weir.Wait) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits = append(o.waits, w)
}

func (o *tracer) Event(_ context.Context, e weir.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// copied returns a copy of what o has.
func (o *tracer) copied() *tracer {
	o.mu.Lock()
	defer o.mu.Unlock()
	return &tracer{starts: slices.Clone(o.starts), ends: slices.Clone(o.ends), waits: slices.Clone(o.waits), events: slices.Clone(o.events), own: o.own}
}

// observed are a server and a client with these options, by the side, and their Observers.
func observed(t *testing.T, o weirgrpc.Options, handler grpc.StreamHandler) map[string]func() (*grpc.ClientConn, *tracer) {
	return map[string]func() (*grpc.ClientConn, *tracer){
		"server": func() (*grpc.ClientConn, *tracer) {
			o, seen := o, &tracer{}
			o.Observer = seen
			return serveStreams(t, handler, append([]grpc.ServerOption{recovering}, newServer(t, o).ServerOptions()...)), seen
		},
		"client": func() (*grpc.ClientConn, *tracer) {
			o, seen := o, &tracer{}
			o.Observer = seen
			return serveStreams(t, handler, []grpc.ServerOption{recovering}, newClient(t, weirgrpc.ClientOptions{Options: o}).DialOptions()...), seen
		},
	}
}

// C9: a stream is observed from its admission to its end, however it ends, with or without
// costs. Its context is the one that the Observer has returned.
func TestC9_StreamsAreObserved(t *testing.T) {
	var missing int
	var mu sync.Mutex
	handler := func(_ any, ss grpc.ServerStream) error {
		in := new(structpb.Struct)
		if err := ss.RecvMsg(in); err != nil {
			return err
		}
		if ss.Context().Value(ownKey{}) == nil {
			mu.Lock()
			missing++
			mu.Unlock()
		}
		return outcome(in.Fields["item"].GetStringValue())
	}
	items := []string{"absent", "denied", "fail", "panic", "fine"}
	cost := weirgrpc.Policy{Cost: func(string, proto.Message) int { return 2 }}
	for what, p := range map[string]weirgrpc.Policy{"": {}, " with costs": cost} {
		o := weirgrpc.Options{Name: "shop", Methods: map[string]weirgrpc.Policy{"/": p}}
		for side, dial := range observed(t, o, handler) {
			side += what
			missing = 0
			conn, seen := dial()
			for _, item := range items {
				_ = converse(context.Background(), conn, "Down", item)
			}
			eventually(t, side+": all streams have ended", func() bool { return len(seen.copied().ends) >= len(items) })
			got := seen.copied()
			if len(got.starts) != len(items) || len(got.ends) != len(items) || len(got.waits) != 0 || got.own != len(items) {
				t.Errorf("%s: %d starts, %d ends, %d in their contexts, %d waits; want %d streams", side, len(got.starts), len(got.ends), got.own, len(got.waits), len(items))
			}
			for _, l := range got.starts {
				if key, _ := l.Key.(weirgrpc.Key); !l.Stream || l.Guard != "shop/" || key.Method != "/weir.test.Streams/Down" {
					t.Errorf("%s: a stream started as %+v", side, l)
				}
			}
			classes := map[weir.Class]int{}
			for _, end := range got.ends {
				if end.Err != nil {
					classes[end.Class]++
				}
			}
			if classes[weir.ClassNotFound] != 1 || classes[weir.ClassTransient] != 2 || len(classes) != 2 {
				t.Errorf("%s: errors by class %v; want 1 not-found and 2 transient", side, classes)
			}
			if side == "server"+what && missing != 0 {
				t.Errorf("%s: %d handlers did not have the context of the Observer", side, missing)
			}
		}
	}
}

// C9: a call or a stream that is not admitted is reported as a wait without a load, and as a
// refusal if a limiter refused it.
func TestC9_WhatIsNotAdmittedIsObserved(t *testing.T) {
	full := one(t)
	defer mustAcquire(t, full).Release(limit.Ignored)
	for what, o := range map[string]weirgrpc.Options{
		"limiter": {Name: "shop", Limiter: full, Streams: full},
		"client":  {Name: "shop", ClientLimiter: func(context.Context, string) error { return &limit.Error{} }},
	} {
		for side, dial := range observed(t, o, talk) {
			conn, seen := dial()
			if err := converse(context.Background(), conn, "Both", "abc"); err == nil {
				t.Errorf("%s, %s: the stream was admitted", what, side)
			}
			if side == "client" {
				if _, err := get(context.Background(), conn, "1"); err == nil {
					t.Errorf("%s, %s: the call was admitted", what, side)
				}
			}
			got := seen.copied()
			want := map[string]int{"server": 1, "client": 2}[side]
			if len(got.waits) != want || len(got.events) != want || len(got.starts) != 0 {
				t.Errorf("%s, %s: %d waits, %d refusals, %d starts; want %d, %d, 0", what, side, len(got.waits), len(got.events), len(got.starts), want, want)
			}
			for _, w := range got.waits {
				if !errors.Is(w.Err, limit.ErrLimited) || w.Load != nil || w.Joined || w.Guard != "shop" || w.Start.IsZero() {
					t.Errorf("%s, %s: the wait is %+v", what, side, w)
				}
			}
		}
	}
	closed := &tracer{}
	s := newServer(t, weirgrpc.Options{Observer: closed})
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, err := call(t.Context(), s, nil, func(context.Context, any) (any, error) { return nil, nil })
	wantCode(t, "a call after Close", err, codes.Unavailable)
	if got := closed.copied(); len(got.waits) != 1 || !errors.Is(got.waits[0].Err, weir.ErrClosed) || len(got.events) != 0 {
		t.Errorf("after Close: the Observer got %+v and %+v; want a wait for ErrClosed", got.waits, got.events)
	}
}
