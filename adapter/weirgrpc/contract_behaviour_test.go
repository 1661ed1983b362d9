package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

// detailed is an error as methods return it.
func detailed(code codes.Code) error {
	s, err := status.New(code, "no such mill").WithDetails(&errdetails.ErrorInfo{Reason: "GONE", Domain: "mills.example"})
	if err != nil {
		panic(err)
	}
	return s.Err()
}

func TestG6_ErrorsKeepCodeAndDetails(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		for _, o := range []weirgrpc.Options{{}, shared(weir.Options{TTL: time.Hour})} {
			c := &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) { return nil, detailed(code) }}
			_, err := get(context.Background(), serve(t, c, newServer(t, o).ServerOptions()), "1")
			s := status.Convert(err)
			if s.Code() != code || s.Message() != "no such mill" || len(s.Details()) != 1 || s.Details()[0].(*errdetails.ErrorInfo).Reason != "GONE" {
				t.Errorf("shared %v: %v became %v with %v", o.Methods != nil, code, err, s.Details())
			}
		}
	}
	for _, text := range []string{"plain", "wrapped: %w"} {
		want := errors.New(text)
		if strings.Contains(text, "%w") {
			want = fmt.Errorf(text, detailed(codes.NotFound))
		}
		without := serve(t, &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) { return nil, want }}, nil)
		within := serve(t, &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) { return nil, want }},
			newServer(t, shared(weir.Options{})).ServerOptions())
		_, a := get(context.Background(), without, "1")
		_, b := get(context.Background(), within, "1")
		if a.Error() != b.Error() {
			t.Errorf("the error is %v; want %v, as without weir", b, a)
		}
	}
}

// What a Guard's source has stated reaches the client as RetryInfo.
func TestG6_RetryAfterOfTheSource(t *testing.T) {
	err := weirgrpc.Error(fmt.Errorf("in a query: %w", weir.RetryAfter(errors.New("busy"), time.Minute)))
	wantCode(t, "a stated time", err, codes.Unavailable)
	wantRetryInfo(t, err)
	wantCode(t, "a not-found", weirgrpc.Error(weir.RetryAfter(weir.ErrNotFound, time.Minute)), codes.NotFound)
	own := status.Error(codes.ResourceExhausted, "quota")
	wantCode(t, "a status", weirgrpc.Error(weir.RetryAfter(own, time.Minute)), codes.ResourceExhausted)
}

// Responses that are codes replace what is stored; failures do not.
func TestG6_WhichErrorsAreFailures(t *testing.T) {
	for code, stale := range map[codes.Code]bool{
		codes.Unavailable: true, codes.Internal: true, codes.Unknown: true, codes.DeadlineExceeded: true,
		codes.ResourceExhausted: true, codes.Aborted: true, codes.DataLoss: true,
		codes.NotFound: false, codes.PermissionDenied: false, codes.Unauthenticated: false, codes.InvalidArgument: false,
		codes.FailedPrecondition: false, codes.OutOfRange: false, codes.Unimplemented: false, codes.AlreadyExists: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, shared(weir.Options{TTL: time.Minute, StaleIfError: time.Hour}))
			var result error
			ask := func() (string, error) {
				got, err := call(t.Context(), s, message("item", "1"), func(context.Context, any) (any, error) { return message("value", "old"), result })
				if err != nil {
					return "", err
				}
				return got.(*structpb.Struct).Fields["value"].GetStringValue(), nil
			}
			if v, err := ask(); v != "old" || err != nil {
				t.Fatalf("Get = %q, %v", v, err)
			}
			time.Sleep(2 * time.Minute)
			result = detailed(code)
			v, err := ask()
			if stale && (v != "old" || err != nil) || !stale && status.Code(err) != code {
				t.Errorf("with %v: %q, %v; want the stale response: %v", code, v, err, stale)
			}
			result = detailed(codes.Unavailable)
			if v, err := ask(); stale != (v == "old") {
				t.Errorf("after %v: %q, %v; want that the stale response is gone: %v", code, v, err, !stale)
			}
		})
	}
}

func TestG6_NotFoundIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, shared(weir.Options{TTL: time.Hour, NegativeTTL: time.Minute}))
		n := 0
		ask := func(code codes.Code) {
			t.Helper()
			_, err := call(t.Context(), s, message("item", code.String()), func(context.Context, any) (any, error) { n++; return nil, detailed(code) })
			wantCode(t, "the call", err, code)
			if len(status.Convert(err).Details()) != 1 {
				t.Errorf("the details of %v are lost", err)
			}
		}
		for range 3 {
			ask(codes.NotFound)
			ask(codes.PermissionDenied)
		}
		if n != 4 {
			t.Errorf("%d executions; want 1 for NotFound and 3 for PermissionDenied", n)
		}
		time.Sleep(time.Minute)
		if ask(codes.NotFound); n != 5 {
			t.Errorf("%d executions after NegativeTTL; want 5", n)
		}
	})
}

func wantRetryInfo(t *testing.T, err error) {
	t.Helper()
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*errdetails.RetryInfo); ok && r.RetryDelay.AsDuration() > 0 {
			return
		}
	}
	t.Errorf("%v has no RetryInfo", err)
}

func one(t *testing.T) *limit.Concurrency {
	t.Helper()
	return limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Name: "one", Limit: 1, Queue: -1}))
}

func TestG7_EveryCallIsAdmitted(t *testing.T) {
	calls, streams := one(t), one(t)
	o := shared(weir.Options{})
	o.Limiter, o.Streams = calls, streams
	c := &catalog{watch: func(ss grpc.ServerStream) error { return ss.RecvMsg(new(structpb.Struct)) }}
	s := newServer(t, o)
	conn := serve(t, c, s.ServerOptions())
	watch := func() error {
		ss, err := conn.NewStream(context.Background(), &catalogDesc.Streams[0], watchMethod)
		if err != nil {
			return err
		}
		_ = ss.CloseSend()
		return ss.RecvMsg(new(structpb.Struct))
	}
	_, sharedBefore := get(context.Background(), conn, "1")
	_, aloneBefore := get(with("x-user", "ada"), conn, "1")
	if err := errors.Join(sharedBefore, aloneBefore); err != nil {
		t.Fatal(err)
	}
	if err := watch(); status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), "EOF") {
		t.Fatalf("the stream = %v; want the handler's EOF", err)
	}
	a, b := mustAcquire(t, calls), mustAcquire(t, streams)
	for what, call := range map[string]func() error{
		"a call that shares":       func() error { _, err := get(context.Background(), conn, "1"); return err },
		"a call that does not":     func() error { _, err := get(with("x-user", "ada"), conn, "1"); return err },
		"a stream":                 watch,
		"a stream of another kind": func() error { _, err := get(with("x-user", "bob"), conn, "2"); return err },
	} {
		err := call()
		wantCode(t, what, err, codes.Unavailable)
		wantRetryInfo(t, err)
	}
	a.Release(limit.Success)
	b.Release(limit.Success)
	if _, err := get(context.Background(), conn, "1"); err != nil {
		t.Errorf("after the release: %v", err)
	}
	if got := statsOf(s.Stats(), getMethod); got.Refused != 3 || got.Running != 0 {
		t.Errorf("Stats = %+v; want 3 refused and none running", got)
	}
	if got := statsOf(s.Stats(), watchMethod); got.Refused != 1 || got.Streams != 1 || got.Running != 0 {
		t.Errorf("Stats of streams = %+v; want 1 refused and 1 admitted", got)
	}
}

func mustAcquire(t *testing.T, l limit.Limiter) limit.Permit {
	t.Helper()
	p, err := l.Acquire(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The health service is called by load balancers, and is not at its limit with the rest.
func TestG7_HealthNeedsNoPermit(t *testing.T) {
	for _, explicit := range []bool{false, true} {
		o := weirgrpc.Options{Limiter: one(t), Methods: map[string]weirgrpc.Policy{"/": {}}}
		if explicit {
			o.Methods["/grpc.health.v1.Health/"] = weirgrpc.Policy{}
		}
		s := newServer(t, o)
		p := mustAcquire(t, o.Limiter)
		_, err := s.UnaryInterceptor()(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/grpc.health.v1.Health/Check"},
			func(context.Context, any) (any, error) { return nil, nil })
		if (err != nil) != explicit {
			t.Errorf("Check = %v; want an error only with an explicit policy (%v)", err, explicit)
		}
		p.Release(limit.Success)
	}
}

func TestG7_AClientOverItsLimit(t *testing.T) {
	rates := map[string]*limit.RateLimiter{}
	for _, user := range []string{"ada", "bob"} {
		rates[user] = limit.Must(limit.NewRateLimiter(limit.RateOptions{PerSecond: 0.001, Burst: 2}))
	}
	o := shared(weir.Options{TTL: time.Hour})
	o.ClientLimiter = func(ctx context.Context, _ string) error {
		md, _ := metadata.FromIncomingContext(ctx)
		_, err := rates[md.Get("x-user")[0]].TryAcquire()
		return err
	}
	s := newServer(t, o)
	conn := serve(t, &catalog{}, s.ServerOptions())
	var errs []error
	for range 3 {
		_, err := get(with("x-user", "ada"), conn, "1")
		errs = append(errs, err)
	}
	if errs[0] != nil || errs[1] != nil {
		t.Errorf("within the limit: %v", errs[:2])
	}
	wantCode(t, "the third call", errs[2], codes.ResourceExhausted)
	wantRetryInfo(t, errs[2])
	if _, err := get(with("x-user", "bob"), conn, "1"); err != nil {
		t.Errorf("another client: %v", err)
	}
	if n := statsOf(s.Stats(), getMethod).RefusedClient; n != 1 {
		t.Errorf("RefusedClient = %d; want 1", n)
	}
}

// A call that would wait beyond its deadline is rejected at once; priorities are served
// in their order.
func TestG7_DeadlinesAndPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1}))
		s := newServer(t, weirgrpc.Options{Limiter: l, PriorityKey: "x-priority"})
		var order []string
		start := func(ctx context.Context, name string, done chan<- error) {
			go func() {
				_, err := call(ctx, s, nil, func(context.Context, any) (any, error) {
					order = append(order, name) // one at a time
					time.Sleep(time.Second)
					return nil, nil
				})
				done <- err
			}()
			synctest.Wait()
		}
		done := make(chan error, 4)
		start(t.Context(), "first", done)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		start(t.Context(), "second", done)
		for _, class := range []string{"low", "normal", "high"} {
			start(metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-priority", class)), class, done)
		}
		hurried, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := call(hurried, s, nil, func(context.Context, any) (any, error) { return nil, nil })
		wantCode(t, "a call that cannot be admitted in time", err, codes.Unavailable)
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it was rejected after %v; want at once", waited)
		}
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if got := fmt.Sprint(order); got != "[first second high normal low]" {
			t.Errorf("served in the order %v", got)
		}
	})
}

func TestG8_CallersLeaveAtTheirDeadlineWhileTheServerHangs(t *testing.T) {
	leave := make(chan struct{})
	c := &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) {
		<-leave // deaf to its context
		return message("value", "late"), nil
	}}
	conn := serve(t, c, newServer(t, shared(weir.Options{LoadTimeout: 200 * time.Millisecond})).ServerOptions())
	patient := make(chan error, 1)
	go func() {
		_, err := get(context.Background(), conn, "1")
		patient <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := get(ctx, conn, "1")
	wantCode(t, "the caller with a deadline", err, codes.DeadlineExceeded)
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = get(ctx, conn, "1")
	wantCode(t, "the caller that canceled", err, codes.Canceled)
	wantCode(t, "the patient caller, at LoadTimeout", <-patient, codes.DeadlineExceeded)
	close(leave)
	if v, err := get(context.Background(), conn, "1"); err != nil || v != "late" {
		t.Errorf("the next call = %q, %v; the key must be free", v, err)
	}
}

// The first caller hangs up, the others get the response.
func TestG8_TheFirstCallerLeaves(t *testing.T) {
	leave := make(chan struct{})
	c := &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		select {
		case <-leave:
			return message("value", "ok"), nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}}
	s := newServer(t, shared(weir.Options{}))
	conn := serve(t, c, s.ServerOptions())
	joiners := func(n int) func() bool {
		return func() bool {
			flights := s.Guards()[0].ActiveFlights(1)
			return len(flights) == 1 && flights[0].Joiners == n
		}
	}
	first, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	go func() { _, err := get(first, conn, "1"); errs <- err }()
	eventually(t, "the first caller", joiners(1))
	go func() { _, err := get(context.Background(), conn, "1"); errs <- err }()
	eventually(t, "the second caller", joiners(2))
	cancel()
	wantCode(t, "the first caller", <-errs, codes.Canceled)
	eventually(t, "its leaving", joiners(1))
	close(leave)
	if err := <-errs; err != nil {
		t.Errorf("the second caller = %v", err)
	}
}

// A server that dies fails all that wait for it, and a client then serves stale
// responses.
func TestG8_TheServerDies(t *testing.T) {
	listener := bufconn.Listen(1 << 20)
	hang := atomic.Bool{}
	entered := make(chan struct{}, 1)
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		if hang.Load() {
			entered <- struct{}{}
			<-ctx.Done()
		}
		return message("value", "from the server"), nil
	}}
	server := grpc.NewServer(newServer(t, weirgrpc.Options{}).ServerOptions()...)
	server.RegisterService(&catalogDesc, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	o := weirgrpc.ClientOptions{Options: shared(weir.Options{TTL: time.Millisecond, StaleIfError: time.Hour}), OneIdentity: true}
	conn := connect(t, listener, newClient(t, o).DialOptions()...)
	if v, err := get(context.Background(), conn, "kept"); err != nil || v != "from the server" {
		t.Fatalf("Get = %q, %v", v, err)
	}
	hang.Store(true)
	errs := make(chan error, 3)
	for range cap(errs) {
		go func() { _, err := get(context.Background(), conn, "waiting"); errs <- err }()
	}
	<-entered
	server.Stop()
	<-served
	for range cap(errs) {
		wantCode(t, "a waiting call", <-errs, codes.Unavailable)
	}
	if v, err := get(context.Background(), conn, "kept"); err != nil || v != "from the server" {
		t.Errorf("with the server dead, Get = %q, %v; want the stale response", v, err)
	}
	_, err := get(context.Background(), conn, "unknown")
	wantCode(t, "a call without a stored response", err, codes.Unavailable)
}

func TestG8_AfterClose(t *testing.T) {
	s := newServer(t, shared(weir.Options{TTL: time.Hour}))
	conn := serve(t, &catalog{watch: func(grpc.ServerStream) error { return nil }}, s.ServerOptions())
	if _, err := get(context.Background(), conn, "kept"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := get(context.Background(), conn, "kept"); err != nil {
		t.Errorf("a fresh response: %v", err)
	}
	_, err := get(context.Background(), conn, "new")
	wantCode(t, "a call that shares", err, codes.Unavailable)
	wantRetryInfo(t, err)
	_, err = get(with("x-user", "ada"), conn, "kept")
	wantCode(t, "a call that does not", err, codes.Unavailable)
	ss, err := conn.NewStream(context.Background(), &catalogDesc.Streams[0], watchMethod)
	if err == nil {
		err = ss.RecvMsg(new(structpb.Struct))
	}
	wantCode(t, "a stream", err, codes.Unavailable)
}

// recording keeps what the Observer gets.
type recording struct {
	weir.NopObserver
	ends   chan weir.LoadEnd
	events chan weir.Event
}

func record() *recording {
	return &recording{ends: make(chan weir.LoadEnd, 100), events: make(chan weir.Event, 100)}
}
func (r *recording) LoadEnd(_ context.Context, _ weir.LoadInfo, end weir.LoadEnd) { r.ends <- end }
func (r *recording) Event(_ context.Context, e weir.Event)                        { r.events <- e }

func TestG9_PanicsAreInternal(t *testing.T) {
	seen := record()
	o := shared(weir.Options{})
	o.Observer = seen
	l := one(t)
	o.Limiter = l
	c := &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) { panic("secret of the handler") }}
	conn := serve(t, c, newServer(t, o).ServerOptions())
	_, err := get(context.Background(), conn, "1")
	wantCode(t, "the call", err, codes.Internal)
	if text := err.Error() + fmt.Sprint(status.Convert(err).Details()); strings.Contains(text, "secret") || strings.Contains(text, "goroutine") || strings.Contains(text, ".go:") {
		t.Errorf("the client gets %q", text)
	}
	var p *weir.PanicError
	if end := <-seen.ends; !errors.As(end.Err, &p) || p.Value != "secret of the handler" || len(p.Stack) == 0 {
		t.Errorf("the Observer got %v; want the PanicError with its stack", end.Err)
	}
	mustAcquire(t, l).Release(limit.Success) // the permit is back
}

// A panic with an error does not set the code, and neither does the panic of a Guard that
// a handler returns as its error: clients see no text and no stack of it.
func TestG9_APanicIsNotTheErrorItPanickedWith(t *testing.T) {
	refused, err := status.New(codes.PermissionDenied, "secret").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"a status": refused.Err(), "a wrapped status": fmt.Errorf("secret: %w", refused.Err()),
		"not found": weir.ErrNotFound, "limited": &limit.Error{Reason: limit.QueueFull, RetryAfter: time.Second},
		"closed": weir.ErrClosed, "canceled": context.Canceled, "a stack": fmt.Sprintf("secret\n%s", debug.Stack()),
		"a panic": &weir.PanicError{Value: refused.Err(), Stack: debug.Stack()},
	} {
		inner, err := weir.New(func(context.Context, string) (int, error) { panic(value) }, weir.Options{TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = inner.Close(context.Background()) })
		for step, do := range map[string]func(context.Context) error{
			"the handler panics":        func(context.Context) error { panic(value) },
			"its Guard panics":          func(ctx context.Context) error { _, err := inner.Get(ctx, "k"); return err },
			"its Guard panics, wrapped": func(ctx context.Context) error { _, err := inner.Get(ctx, "k"); return fmt.Errorf("secret: %w", err) },
			"its Guard panics, and a status": func(ctx context.Context) error {
				_, err := inner.Get(ctx, "k")
				return errors.Join(err, refused.Err())
			},
		} {
			for _, o := range []weirgrpc.Options{shared(weir.Options{TTL: time.Minute, NegativeTTL: time.Minute}), {}} {
				if o.Methods == nil && step == "the handler panics" {
					continue // it passes through
				}
				runs := 0
				c := &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) { runs++; return nil, do(ctx) }}
				conn := serve(t, c, newServer(t, o).ServerOptions())
				var trailer metadata.MD
				for range 2 {
					_, err := get(context.Background(), conn, "1", grpc.Trailer(&trailer))
					wantCode(t, name+", "+step, err, codes.Internal)
					text := fmt.Sprint(err, status.Convert(err).Details(), trailer)
					if strings.Contains(text, "secret") || strings.Contains(text, "goroutine") || strings.Contains(text, ".go:") {
						t.Errorf("%s, %s: the client gets %q", name, step, text)
					}
				}
				if runs != 2 {
					t.Errorf("%s, %s: %d executions; want 2", name, step, runs)
				}
			}
		}
	}
}

// Without sharing a panic is the server's, as without weir; its permit comes back.
func TestG9_APanicAlonePassesThrough(t *testing.T) {
	seen := record()
	l := one(t)
	s := newServer(t, weirgrpc.Options{Limiter: l, Streams: l, Observer: seen})
	recovered := func(fn func()) (v any) {
		defer func() { v = recover() }()
		fn()
		return nil
	}
	if v := recovered(func() { _, _ = call(t.Context(), s, nil, func(context.Context, any) (any, error) { panic("own") }) }); v != "own" {
		t.Errorf("recovered %v; want the handler's panic", v)
	}
	mustAcquire(t, l).Release(limit.Success)
	if end := <-seen.ends; end.Err == nil {
		t.Error("the Observer got no error")
	}
	if v := recovered(func() {
		_ = s.StreamInterceptor()(nil, emptyStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: watchMethod}, func(any, grpc.ServerStream) error { panic("own") })
	}); v != "own" {
		t.Errorf("recovered %v; want the handler's panic", v)
	}
	mustAcquire(t, l).Release(limit.Success)
}

type emptyStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s emptyStream) Context() context.Context { return s.ctx }

func TestObserverSeesCallsThatShareNothing(t *testing.T) {
	seen := record()
	l := one(t)
	s := newServer(t, weirgrpc.Options{Limiter: l, Observer: seen})
	if _, err := call(t.Context(), s, nil, func(context.Context, any) (any, error) { return nil, io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the call = %v", err)
	}
	if end := <-seen.ends; !errors.Is(end.Err, io.ErrUnexpectedEOF) {
		t.Errorf("LoadEnd has %v", end.Err)
	}
	p := mustAcquire(t, l)
	_, err := call(t.Context(), s, nil, func(context.Context, any) (any, error) { return nil, nil })
	wantCode(t, "a call beyond the limit", err, codes.Unavailable)
	if e := <-seen.events; e.Kind != weir.EventRefused || e.Key != (weirgrpc.Key{Method: getMethod}) || !errors.Is(e.Err, limit.ErrLimited) {
		t.Errorf("the event is %+v", e)
	}
	p.Release(limit.Success)
}

// A cancellation with another cause is Canceled too, and says nothing else.
func TestG8_ACauseOfTheContextIsNotSent(t *testing.T) {
	hang := func(ctx context.Context, _ any) (any, error) { <-ctx.Done(); return nil, ctx.Err() }
	for name, o := range map[string]weirgrpc.Options{"shared": shared(weir.Options{}), "queued": {Limiter: limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1}))}} {
		s := newServer(t, o)
		if name == "queued" {
			defer mustAcquire(t, o.Limiter).Release(limit.Success)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(10*time.Millisecond, func() { cancel(errors.New("internal reason")) })
		_, err := call(ctx, s, message("item", "1"), hang)
		wantCode(t, name, err, codes.Canceled)
		if strings.Contains(err.Error(), "internal reason") {
			t.Errorf("%s: the client gets %v", name, err)
		}
	}
}
