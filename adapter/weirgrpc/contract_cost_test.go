package weirgrpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

// priced is a policy whose calls are estimated at the length of their item, times 10, and
// cost the length of the value. Streams cost 10.
func priced(budget limit.Limiter, p weirgrpc.Policy) weirgrpc.Policy {
	p.Budget = budget
	p.Cost = func(method string, request proto.Message) int {
		if request == nil {
			return 10
		}
		return 10 * len(request.(*structpb.Struct).Fields["item"].GetStringValue())
	}
	p.Usage = func(method string, response proto.Message) (int, bool) {
		v, ok := response.(*structpb.Struct).Fields["value"]
		return len(v.GetStringValue()), ok
	}
	return p
}

func hourly(t *testing.T, units int) *limit.RateLimiter {
	t.Helper()
	l, err := limit.NewRateLimiter(limit.RateOptions{PerSecond: 1e-6, Burst: units, Queue: -1})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func leftIn(t *testing.T, what string, l *limit.RateLimiter, want int) {
	t.Helper()
	eventually(t, what, func() bool { return int(l.Stats().Tokens+0.5) == want })
}

// G7, H34: calls that share nothing, on a server and on a client, take their estimate from
// the budget and settle it from the response; an error costs the estimate.
func TestG7H34CallsAloneAreCharged(t *testing.T) {
	c := &catalog{get: func(_ context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		switch item := in.Fields["item"].GetStringValue(); item {
		case "fail":
			return nil, status.Error(codes.Internal, "no")
		case "none":
			return &structpb.Struct{}, nil
		default:
			return message("value", item), nil
		}
	}}
	for side, dial := range map[string]func(l *limit.RateLimiter) *grpc.ClientConn{
		"server": func(l *limit.RateLimiter) *grpc.ClientConn {
			s := newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": priced(l, weirgrpc.Policy{})}})
			return serve(t, c, s.ServerOptions())
		},
		"client": func(l *limit.RateLimiter) *grpc.ClientConn {
			cl := newClient(t, weirgrpc.ClientOptions{Options: weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": priced(l, weirgrpc.Policy{})}}})
			return serve(t, c, nil, cl.DialOptions()...)
		},
	} {
		l := hourly(t, 200)
		conn := dial(l)
		for _, row := range []struct {
			item string
			left int
		}{{"abc", 197}, {"fail", 157}, {"none", 117}} {
			_, _ = get(context.Background(), conn, row.item)
			leftIn(t, side+": "+row.item+" is settled", l, row.left)
		}
		_, err := get(context.Background(), conn, "twelve chars")
		wantCode(t, side+": a call above what is left", err, codes.Unavailable)
		_, err = get(context.Background(), conn, "more than twenty chars")
		wantCode(t, side+": a call above the whole", err, codes.ResourceExhausted)
		if len(status.Convert(err).Details()) != 0 {
			t.Errorf("%s: details of %v; want none, as a retry does not help", side, err)
		}
		leftIn(t, side+": rejected calls take nothing", l, 117)
	}
}

// G7, H34: of calls that share an execution, one is charged; responses from memory cost
// nothing, and are counted. Streams take their estimate.
func TestG7H34SharedExecutionsAreChargedOnce(t *testing.T) {
	l := hourly(t, 100)
	c := &catalog{
		get: func(_ context.Context, in *structpb.Struct) (*structpb.Struct, error) {
			return message("value", "12"), nil
		},
		watch: func(ss grpc.ServerStream) error { return nil },
	}
	s := newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{
		"/": priced(l, weirgrpc.Policy{Share: weirgrpc.ShareAll, Guard: weir.Options{TTL: time.Hour}}),
	}})
	conn := serve(t, c, s.ServerOptions())
	for range 3 {
		if v, err := get(context.Background(), conn, "abc"); v != "12" || err != nil {
			t.Fatalf("Get = %q, %v", v, err)
		}
	}
	leftIn(t, "the execution is settled", l, 98)
	if got := s.Guards()[0].Stats().Cost; got != (weir.CostStats{Spent: 2, Hits: 4}) {
		t.Errorf("Stats.Cost = %+v; want 2 spent, and 4 avoided by hits", got)
	}
	stream, err := conn.NewStream(context.Background(), &grpc.StreamDesc{ServerStreams: true}, watchMethod)
	if err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = stream.RecvMsg(new(structpb.Struct))
	leftIn(t, "the stream takes its estimate", l, 88)
}

func TestOptionsNeedACostForABudget(t *testing.T) {
	err := weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/": {
		Budget: limit.All(), Usage: func(string, proto.Message) (int, bool) { return 0, false },
	}}}.Validate()
	for _, field := range []string{`Methods["/"].Usage`, `Methods["/"].Budget`} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("Validate = %v; want a fault in %s", err, field)
		}
	}
}
