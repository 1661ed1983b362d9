package weirgrpc_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// ended is the number of calls of s that have ended, by what became of them.
func ended(s inspect.MethodStats) uint64 {
	return s.Hits + s.Stale + s.Joined + s.Fleet + s.Executed + s.Ran + s.Failed + s.Refused + s.RefusedClient + s.Left
}

// addUp checks that the parts of s add up.
func addUp(t *testing.T, s inspect.MethodStats) {
	t.Helper()
	r := s.Responses
	if n := ended(s); s.Calls != n {
		t.Errorf("%s: %d calls, of which %d have ended: %+v", s.Method, s.Calls, n, s)
	}
	if n := r.OK + r.ClientError + r.ServerError + s.Left; s.Calls != n {
		t.Errorf("%s: %d calls, and %d responses with those that left: %+v", s.Method, s.Calls, n, s)
	}
	if n := s.NotFound + s.Declined + s.Failures + s.Abandoned; n > s.Executions {
		t.Errorf("%s: %d executions, and %d without a response: %+v", s.Method, s.Executions, n, s)
	}
	if s.Running != 0 || s.Executing != 0 {
		t.Errorf("%s: %d running, %d executing; want none", s.Method, s.Running, s.Executing)
	}
}

// G6: each call is in one of the outcomes, and its caller's response in one class: random
// calls of all kinds, for a Server and a Client, that share and that do not.
func TestG6_OutcomesAddUp(t *testing.T) {
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	handle := func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		switch in.Fields["item"].GetStringValue() {
		case "absent":
			return nil, status.Error(codes.NotFound, "no")
		case "denied":
			return nil, status.Error(codes.PermissionDenied, "no")
		case "broken":
			return nil, status.Error(codes.Internal, "no")
		case "panic":
			panic("broken")
		case "slow":
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return in, nil
	}
	safely := grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (_ any, err error) {
		defer func() {
			if recover() != nil {
				err = status.Error(codes.Internal, "panic")
			}
		}()
		return next(ctx, req)
	})
	watch := func(ss grpc.ServerStream) error {
		in := new(structpb.Struct)
		if err := ss.RecvMsg(in); err != nil {
			return err
		}
		out, err := handle(ss.Context(), in)
		if err != nil {
			return err
		}
		return ss.SendMsg(out)
	}
	options := func(share weirgrpc.Share) weirgrpc.Options {
		tight := limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 4, Queue: 4}))
		policy := weirgrpc.Policy{Share: share}
		if share == weirgrpc.ShareAll {
			policy.Guard = weir.Options{TTL: 5 * time.Millisecond, StaleWhileRevalidate: 20 * time.Millisecond, StaleIfError: time.Second, NegativeTTL: 5 * time.Millisecond}
		}
		var mu sync.Mutex
		n := 0
		return weirgrpc.Options{
			Limiter: tight, Streams: tight,
			Methods: map[string]weirgrpc.Policy{getMethod: policy},
			ClientLimiter: func(context.Context, string) error {
				mu.Lock()
				defer mu.Unlock()
				if n++; n%17 == 0 {
					return limit.ErrLimited
				}
				return nil
			},
		}
	}
	for name, share := range map[string]weirgrpc.Share{"shared": weirgrpc.ShareAll, "alone": weirgrpc.ShareNone} {
		server := newServer(t, options(share))
		client := newClient(t, weirgrpc.ClientOptions{Options: options(share), OneIdentity: true})
		behind := append([]grpc.ServerOption{safely}, server.ServerOptions()...)
		toServer := serve(t, &catalog{get: handle, watch: watch}, behind)
		byClient := serve(t, &catalog{get: handle, watch: watch}, []grpc.ServerOption{safely}, client.DialOptions()...)
		var calls sync.WaitGroup
		const each = 400
		for i := range 2 * each {
			conn := grpc.ClientConnInterface(toServer)
			if i%2 == 0 {
				conn = byClient
			}
			item := []string{"a", "b", "slow", "absent", "denied", "broken", "panic"}[random.IntN(7)]
			ctx, cancel := context.WithCancel(t.Context())
			switch random.IntN(8) {
			case 0:
				time.AfterFunc(time.Duration(random.IntN(10))*time.Millisecond, cancel)
			case 1:
				ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(10))*time.Millisecond) //nolint:govet // canceled below
			}
			stream := random.IntN(5) == 0 && item != "panic"
			calls.Go(func() {
				defer cancel()
				if !stream {
					_, _ = get(ctx, conn, item)
					return
				}
				s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, watchMethod)
				if err != nil {
					return
				}
				_ = s.SendMsg(message("item", item))
				_ = s.CloseSend()
				for err == nil {
					err = s.RecvMsg(new(structpb.Struct))
				}
			})
			if random.IntN(20) == 0 {
				time.Sleep(time.Duration(random.IntN(8)) * time.Millisecond)
			}
		}
		calls.Wait()
		for side, stats := range map[string]func() []inspect.MethodStats{"server": server.Stats, "client": client.Stats} {
			t.Run(name+" "+side, func(t *testing.T) {
				both := func() (get, watch inspect.MethodStats) {
					all := stats()
					return statsOf(all, getMethod), statsOf(all, watchMethod)
				}
				for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
					// Calls that the client has left can still run in the server.
					if get, watch := both(); get.Calls == ended(get) && watch.Calls == ended(watch) && get.Executing == 0 {
						break
					}
				}
				get, watch := both()
				addUp(t, get)
				addUp(t, watch)
				if side == "client" && get.Calls+watch.Calls != each {
					t.Errorf("%d calls and streams; want %d", get.Calls+watch.Calls, each)
				}
				if (share == weirgrpc.ShareAll) != (get.Hits+get.Stale > 0) || (share == weirgrpc.ShareNone) != (get.Ran > 0) || watch.Ran == 0 {
					t.Errorf("hits, or runs of their own, are missing or too many: %+v, %+v", get, watch)
				}
				if get.CallTime.Count != get.Calls-get.Left-get.RefusedClient {
					t.Errorf("%d calls were timed, of %d without %d that left and %d over their limit", get.CallTime.Count, get.Calls, get.Left, get.RefusedClient)
				}
				if get.ExecutionTime.Count != get.Executions {
					t.Errorf("%d executions were timed, of %d", get.ExecutionTime.Count, get.Executions)
				}
			})
		}
	}
}

// G6: a refresh after a hit is an execution in the background.
func TestG6_RefreshesAreCounted(t *testing.T) {
	s := newServer(t, shared(weir.Options{TTL: time.Millisecond, StaleWhileRevalidate: time.Hour}))
	conn := serve(t, &catalog{}, s.ServerOptions())
	for i := range 3 {
		if _, err := get(t.Context(), conn, "a"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the execution", func() bool {
			st := statsOf(s.Stats(), getMethod)
			return st.Executions == uint64(i+1) && st.Executing == 0
		})
		time.Sleep(2 * time.Millisecond) // until it is stale
	}
	got := statsOf(s.Stats(), getMethod)
	if want := s.Guards()[0].Stats().Refreshes; got.Refreshes != 2 || want != 2 || got.Stale != 2 || got.Executed != 1 {
		t.Errorf("%d refreshes, %d of the Guard, %d stale responses, %d executed; want 2, 2, 2, 1", got.Refreshes, want, got.Stale, got.Executed)
	}
}
