package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// kinds are the kinds of streams, by the name of their method.
var kinds = map[string]*grpc.StreamDesc{
	"Down": {StreamName: "Down", ServerStreams: true},
	"Up":   {StreamName: "Up", ClientStreams: true},
	"Both": {StreamName: "Both", ServerStreams: true, ClientStreams: true},
}

// serveStreams serves a method of each kind with handler.
func serveStreams(t *testing.T, handler grpc.StreamHandler, options []grpc.ServerOption, dial ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	own := grpc.ServiceDesc{ServiceName: "weir.test.Streams", HandlerType: (*any)(nil)}
	for _, d := range kinds {
		d := *d
		d.Handler = handler
		own.Streams = append(own.Streams, d)
	}
	return serveAs(t, &own, struct{}{}, options, dial...)
}

// converse opens a stream, sends the item, and receives to the end.
func converse(ctx context.Context, conn *grpc.ClientConn, kind, item string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := conn.NewStream(ctx, kinds[kind], "/weir.test.Streams/"+kind)
	if err != nil {
		return err
	}
	if err := s.SendMsg(message("item", item)); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	for {
		switch err := s.RecvMsg(new(structpb.Struct)); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case !kinds[kind].ServerStreams:
			return nil
		}
	}
}

// talk is a handler of a stream. The item says what it sends: for each word a message with
// as many units, "trailer=", "ctxtrailer=" and "header=" metadata, "fail" an error, "panic"
// a panic and "silent" a message without units.
func talk(_ any, ss grpc.ServerStream) error {
	in := new(structpb.Struct)
	if err := ss.RecvMsg(in); err != nil {
		return err
	}
	for _, word := range strings.Fields(in.Fields["item"].GetStringValue()) {
		where, units, _ := strings.Cut(word, "=")
		switch where {
		case "trailer":
			ss.SetTrailer(metadata.Pairs("x-units", units))
		case "ctxtrailer":
			if err := grpc.SetTrailer(ss.Context(), metadata.Pairs("x-units", units)); err != nil {
				return err
			}
		case "header":
			if err := ss.SetHeader(metadata.Pairs("x-units", units)); err != nil {
				return err
			}
		case "fail":
			return status.Error(codes.Internal, "no")
		case "panic":
			panic("no")
		case "silent":
			if err := ss.SendMsg(&structpb.Struct{}); err != nil {
				return err
			}
		default:
			if err := ss.SendMsg(message("value", strings.Repeat("x", len(word)))); err != nil {
				return err
			}
		}
	}
	return nil
}

// metered is a policy with a budget whose calls cost their estimate: 10 for each letter of
// the item, 100 for a stream whose messages come later. The length of a response's value
// and the metadata key x-units state a cost.
func metered(budget limit.Limiter) weirgrpc.Policy {
	p := priced(budget, weirgrpc.Policy{})
	p.UsageKey = "x-units"
	p.Cost = func(method string, request proto.Message) int {
		if request == nil {
			return 100
		}
		return 10 * len(request.(*structpb.Struct).Fields["item"].GetStringValue())
	}
	return p
}

// metering are a server and a client that have a policy, by the side.
func metering(t *testing.T, handler grpc.StreamHandler, recovered grpc.ServerOption) map[string]func(weirgrpc.Policy) (*grpc.ClientConn, func() []inspect.MethodStats) {
	return map[string]func(weirgrpc.Policy) (*grpc.ClientConn, func() []inspect.MethodStats){
		"server": func(p weirgrpc.Policy) (*grpc.ClientConn, func() []inspect.MethodStats) {
			s := newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": p}})
			return serveStreams(t, handler, append([]grpc.ServerOption{recovered}, s.ServerOptions()...)), s.Stats
		},
		"client": func(p weirgrpc.Policy) (*grpc.ClientConn, func() []inspect.MethodStats) {
			c := newClient(t, weirgrpc.ClientOptions{Options: weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": p}}})
			return serveStreams(t, handler, []grpc.ServerOption{recovered}, c.DialOptions()...), c.Stats
		},
	}
}

// recovering turns panics of streams into errors, outside of weir.
var recovering = grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) (err error) {
	defer func() {
		if recover() != nil {
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return next(srv, ss)
})

// G7, H34: a stream takes its estimate, from its request if that is one message, and
// settles what its trailer states, or else its header, or its last message that does. A
// stream that breaks settles what it has stated, or keeps the estimate.
func TestG7H34StreamsSettleWhatTheyState(t *testing.T) {
	for side, dial := range metering(t, talk, recovering) {
		for _, row := range []struct {
			kind, item string
			cost       int // 0: the estimate
			code       codes.Code
		}{
			{"Down", "abc de", 2, codes.OK}, // the last message counts
			{"Both", "abc de", 2, codes.OK},
			{"Up", "abcd", 4, codes.OK},
			{"Down", "abc silent", 3, codes.OK}, // it states nothing
			{"Down", "trailer=7 abc", 7, codes.OK},
			{"Both", "abc trailer=7", 7, codes.OK},
			{"Up", "trailer=7 abc", 7, codes.OK},
			{"Both", "abc ctxtrailer=7", 7, codes.OK},
			{"Down", "header=9 abc", 9, codes.OK},
			{"Both", "header=9 trailer=0 silent", -1, codes.OK}, // free
			{"Both", "trailer=5 trailer=6", 6, codes.OK},        // the last value counts
			{"Both", "trailer=-1 trailer=1e3 abc", 3, codes.OK},
			{"Both", "silent", 0, codes.OK},
			{"Down", "silent", 0, codes.OK},
			{"Both", "fail", 0, codes.Internal},
			{"Down", "fail", 0, codes.Internal},
			{"Both", "abc fail", 3, codes.Internal},
			{"Down", "trailer=7 abc fail", 7, codes.Internal},
			{"Both", "panic", 0, codes.Internal},
			{"Both", "abc panic", 3, codes.Internal},
			{"Down", "trailer=7 panic", 7, codes.Internal},
		} {
			t.Run(fmt.Sprint(side, row.kind, row.item), func(t *testing.T) {
				cost := max(row.cost, 0)
				if row.cost == 0 {
					if cost = 100; row.kind == "Down" {
						cost = 10 * len(row.item)
					}
				}
				l := hourly(t, 1000)
				if _, err := l.AcquireN(context.Background(), 200); err != nil {
					t.Fatal(err)
				}
				conn, stats := dial(metered(l))
				wantCode(t, "the stream", converse(context.Background(), conn, row.kind, row.item), row.code)
				leftIn(t, "the stream is settled", l, 800-cost)
				eventually(t, "the cost is counted", func() bool {
					s := statsOf(stats(), "/weir.test.Streams/"+row.kind)
					return s.CostSpent == uint64(cost) && s.Running == 0
				})
			})
		}
	}
}

// G7, H34: a stream above what is left is rejected before its handler works, or before
// its request leaves; it holds neither units nor a permit.
func TestG7H34StreamsAboveTheBudgetAreRejected(t *testing.T) {
	for side, dial := range metering(t, talk, recovering) {
		for kind, item := range map[string]string{"Down": "elevenchars", "Both": "abc", "Up": "abc"} {
			t.Run(side+kind, func(t *testing.T) {
				l := hourly(t, 150)
				p := metered(l)
				p.Limiter = limit.Must(limit.NewConcurrency(limit.ConcurrencyOptions{Limit: 1, Queue: -1}))
				conn, stats := dial(p)
				for range 60 {
					if l.Acquire(context.Background()); int(l.Stats().Tokens+0.5) < 100 {
						break
					}
				}
				before := int(l.Stats().Tokens + 0.5)
				for range 2 {
					wantCode(t, "the stream", converse(context.Background(), conn, kind, item), codes.Unavailable)
				}
				leftIn(t, "a rejected stream takes nothing", l, before)
				eventually(t, "the permit is back", func() bool {
					s := statsOf(stats(), "/weir.test.Streams/"+kind)
					return s.Running == 0 && s.CostSpent == 0 && s.CostRefused >= 200 && s.Refused == 2
				})
				if kind == "Down" { // its estimate is that of its request
					wantCode(t, "a small stream", converse(context.Background(), conn, kind, "abc"), codes.OK)
					leftIn(t, "a small stream is admitted", l, before-3)
				}
			})
		}
	}
}

// G7, H34: a canceled stream settles what it has stated.
func TestG7H34CanceledStreamsAreSettled(t *testing.T) {
	handler := func(_ any, ss grpc.ServerStream) error {
		in := new(structpb.Struct)
		if err := ss.RecvMsg(in); err != nil {
			return err
		}
		if err := ss.SendMsg(in); err != nil {
			return err
		}
		<-ss.Context().Done()
		return ss.Context().Err()
	}
	for side, dial := range metering(t, handler, recovering) {
		for field, cost := range map[string]int{"value": 3, "item": 100} {
			l := hourly(t, 1000)
			conn, stats := dial(metered(l))
			ctx, cancel := context.WithCancel(context.Background())
			s, err := conn.NewStream(ctx, kinds["Both"], "/weir.test.Streams/Both")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.SendMsg(message(field, "abc")); err != nil {
				t.Fatal(err)
			}
			if err := s.RecvMsg(new(structpb.Struct)); err != nil {
				t.Fatal(err)
			}
			cancel()
			eventually(t, "the stream ends", func() bool { return statsOf(stats(), "/weir.test.Streams/Both").Running == 0 })
			leftIn(t, side+": it is settled", l, 1000-cost)
		}
	}
}

// H34: clients cannot state a cost: the server does not read their metadata for it.
func TestG7H34ClientsCannotStateACost(t *testing.T) {
	l := hourly(t, 1000)
	p := metered(l)
	p.Usage = nil
	s := newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": p}})
	conn := serveStreams(t, talk, s.ServerOptions())
	if err := converse(with("x-units", "0"), conn, "Both", "abc"); err != nil {
		t.Fatal(err)
	}
	leftIn(t, "the estimate of the stream stands", l, 900)

	conn = serve(t, &catalog{}, s.ServerOptions())
	if _, err := get(with("x-units", "0"), conn, "abc"); err != nil {
		t.Fatal(err)
	}
	leftIn(t, "the estimate of the call stands", l, 870)
}

// G7, H34: calls settle what their trailer or header states, alone and shared, with a
// response and with an error.
func TestG7H34CallsSettleWhatTheirMetadataStates(t *testing.T) {
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		item := in.Fields["item"].GetStringValue()
		where, units, _ := strings.Cut(item, "=")
		if set, ok := map[string]func(context.Context, metadata.MD) error{"trailer": grpc.SetTrailer, "fail": grpc.SetTrailer, "absent": grpc.SetTrailer, "header": grpc.SetHeader}[where]; ok {
			if err := set(ctx, metadata.Pairs("x-units", units)); err != nil {
				return nil, err
			}
		}
		switch where {
		case "fail":
			return nil, status.Error(codes.Internal, "no")
		case "absent":
			return nil, status.Error(codes.NotFound, "no")
		}
		return message("value", "four"), nil
	}}
	for _, share := range []weirgrpc.Share{weirgrpc.ShareNone, weirgrpc.ShareAll} {
		for _, side := range []string{"server", "client"} {
			l := hourly(t, 1000)
			p := metered(l)
			p.Share = share
			if share != weirgrpc.ShareNone {
				p.Guard = weir.Options{NegativeTTL: 1 << 40}
			}
			o := weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": p}}
			var conn *grpc.ClientConn
			if side == "server" {
				conn = serve(t, c, newServer(t, o).ServerOptions())
			} else {
				conn = serve(t, c, nil, newClient(t, weirgrpc.ClientOptions{Options: o, OneIdentity: true}).DialOptions()...)
			}
			left := 1000
			for _, row := range []struct {
				item string
				cost int
			}{
				{"trailer=7", 7}, {"header=9", 9}, {"fail=5", 5}, {"absent=6", 6}, {"absent=", 70}, {"trailer=0", 0}, {"fail=", 50},
				{"plain", 4}, {"trailer=99999999999999999999999", 4},
			} {
				_, _ = get(context.Background(), conn, row.item)
				left -= row.cost
				leftIn(t, fmt.Sprintf("%s, share %v: %s", side, share, row.item), l, left)
			}
		}
	}
}

// G7, H34: a goroutine of a handler that outlives its stream takes nothing any more.
func TestG7H34AStreamThatIsOverTakesNothing(t *testing.T) {
	l := hourly(t, 1000)
	s := newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": metered(l)}})
	late := make(chan grpc.ServerStream, 1)
	conn := serveStreams(t, func(_ any, ss grpc.ServerStream) error {
		late <- ss
		return nil
	}, s.ServerOptions())
	if err := converse(context.Background(), conn, "Down", "abc"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the stream ends", func() bool { return statsOf(s.Stats(), "/weir.test.Streams/Down").Running == 0 })
	_ = (<-late).SendMsg(message("value", "abc"))
	leftIn(t, "nothing is taken", l, 1000)
}
