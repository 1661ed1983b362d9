package interoptest_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/console"
)

var (
	_ console.Interceptor = (*weirgrpc.Server)(nil)
	_ console.Interceptor = (*weirgrpc.Client)(nil)
)

// C4, C11: the console shows the methods of a Server, shared or not, with what their callers
// received, and nothing that clients send.
func TestC11_MethodsInTheConsole(t *testing.T) {
	s, err := weirgrpc.NewServer(weirgrpc.Options{Name: "shop", Methods: map[string]weirgrpc.Policy{
		"/weir.test.Mills/Get": {Share: weirgrpc.ShareAll, Guard: weir.Options{TTL: time.Hour}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(context.Background())
	call := func(ctx context.Context, method, item string, err error) {
		handler := func(_ context.Context, req any) (any, error) {
			if err != nil {
				return nil, err
			}
			return req, nil
		}
		_, _ = s.UnaryInterceptor()(ctx, structpb.NewStringValue(item), &grpc.UnaryServerInfo{FullMethod: method}, handler)
	}
	secret := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-secret", "secret"))
	call(t.Context(), "/weir.test.Mills/Get", "secret", nil)
	call(t.Context(), "/weir.test.Mills/Get", "secret", nil)
	call(secret, "/weir.test.Mills/Get", "secret", nil)
	call(t.Context(), "/weir.test.Mills/Grind", "secret", status.Error(codes.Internal, "secret"))
	call(t.Context(), "/weir.test.Mills/Grind", "secret", status.Error(codes.NotFound, "secret"))

	source, err := console.Methods([]console.Interceptor{s})
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.New(console.Options{Source: source})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	server := httptest.NewServer(c)
	defer server.Close()
	read := func(path string) string {
		t.Helper()
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || strings.Contains(string(b), "secret") {
			t.Fatalf("%s is %d: %s, %v; want 200, and nothing that a client sent", path, resp.StatusCode, b, err)
		}
		return string(b)
	}
	var now console.Snapshot
	if err := json.Unmarshal([]byte(read("/api/snapshot")), &now); err != nil {
		t.Fatal(err)
	}
	if len(now.Units) != 2 || len(now.Limits) != 2 {
		t.Fatalf("%d units and %d limits; want 2 and 2", len(now.Units), len(now.Limits))
	}
	get, grind := now.Units[0], now.Units[1]
	if get.Name != "shop/weir.test.Mills/Get" || get.Requests != 3 || get.Avoided.Hits != 1 || get.Missed != 2 || get.Calls != 2 || get.Responses.Success != 3 {
		t.Errorf("Get is %+v, %+v; want 3 calls, of which one is a hit", get, get.Responses)
	}
	if r := grind.Responses; grind.Requests != 2 || grind.Missed != 2 || grind.MissedErrors != 1 || grind.Failed != 1 || r.ServerError != 1 || r.ClientError != 1 {
		t.Errorf("Grind is %+v, %+v; want 2 calls, of which one failed", grind, r)
	}
	read("/api/units/shop%2Fweir.test.Mills%2FGet")
}
