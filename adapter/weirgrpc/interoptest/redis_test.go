package interoptest_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/adapter/weirredis"
	"github.com/weir-go/weir/fleet"
)

// redis returns the address of the server that lab/cmd/with has started. Without one
// the test fails if engines are required, and is skipped otherwise.
func redis(t *testing.T) string {
	t.Helper()
	address := os.Getenv("WEIR_TEST_REDIS")
	if address == "" && os.Getenv("WEIR_TEST_ENGINES") == "required" {
		t.Fatal("WEIR_TEST_ENGINES=required, but WEIR_TEST_REDIS is not set")
	} else if address == "" {
		t.Skip("WEIR_TEST_REDIS is not set")
	}
	return address
}

// G11 with Redis: equal calls on several instances are one execution, and what it
// returns reaches all of them, a message as well as an error with its details.
func TestG11_OneExecutionForTheFleetOnRedis(t *testing.T) {
	address := redis(t)
	prefix := fmt.Sprintf("weirgrpc-%d", time.Now().UnixNano())
	const instances, callers = 3, 20
	var executions atomic.Int64
	leave := make(chan struct{})
	handler := func(_ context.Context, req any) (any, error) {
		executions.Add(1)
		<-leave
		if text := req.(*structpb.Value).GetStringValue(); text != "found" {
			return nil, status.Error(codes.NotFound, "no "+text)
		}
		return structpb.NewStringValue("a mill"), nil
	}
	results := make(chan string, 2*instances*callers)
	for range instances {
		s := instance(t, address, prefix)
		ask := func(text string) {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			resp, err := s.UnaryInterceptor()(ctx, structpb.NewStringValue(text), &grpc.UnaryServerInfo{FullMethod: "/weir.test.Mills/Get"}, handler)
			v, _ := resp.(*structpb.Value)
			results <- fmt.Sprint(text, ": ", v.GetStringValue(), status.Code(err), status.Convert(err).Message())
		}
		for range callers {
			go ask("found")
			go ask("missing")
		}
	}
	for executions.Load() < 2 && t.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	close(leave)
	for range cap(results) {
		if r := <-results; r != "found: a millOK" && r != "missing: NotFoundno missing" {
			t.Errorf("a caller got %s", r)
		}
	}
	if n := executions.Load(); n != 2 {
		t.Errorf("%d executions; want 2, one for each message", n)
	}
}

// instance returns one instance of the service.
func instance(t *testing.T, address, prefix string) *weirgrpc.Server {
	t.Helper()
	tier, err := weirredis.New(t.Context(), weirredis.Options{Addresses: []string{address}, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	s, err := weirgrpc.NewServer(weirgrpc.Options{Methods: map[string]weirgrpc.Policy{"/weir.test.Mills/": {
		Share: weirgrpc.ShareAll, Schema: "v1",
		Guard: weir.Options{TTL: time.Hour, NegativeTTL: time.Hour, Fleet: weir.Fleet{Config: fleet.Config{Tier: tier}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := tier.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}
