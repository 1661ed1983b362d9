package weirgrpc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/limit"
)

func TestOptionsReportAllFaults(t *testing.T) {
	_, err := weirgrpc.NewServer(weirgrpc.Options{
		MaxRequest: -1, PriorityKey: "Upper", IgnoreMetadata: []string{":authority"},
		Methods: map[string]weirgrpc.Policy{
			"no slash":    {},
			"/a.B/Get":    {Guard: weir.Options{TTL: time.Minute}},
			"/a.B/List":   {Share: 9, Peer: 9, Metadata: []string{"k"}, IgnoreMetadata: []string{"k"}},
			"/a.B/Update": {Share: weirgrpc.ShareAll, Guard: weir.Options{TTL: -1, Name: "x", Limiter: limit.All(), Batch: weir.Batching{MaxSize: 2}}},
		},
	})
	for _, want := range []string{
		"Options.MaxRequest is -1", "Options.PriorityKey", "Options.IgnoreMetadata", `Options.Methods is "no slash"`,
		`Methods["/a.B/Get"].Guard is given`, "Share is 9", "Peer is 9", "IgnoreMetadata is k",
		`Methods["/a.B/Update"].Guard.TTL is -1ns`, "Guard.Name", "Guard.Limiter", "Guard.Batch",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %s:\n%v", want, err)
		}
	}
}

// The longest pattern applies, and NO_SIDE_EFFECTS is read from the definition.
func TestPolicyOfAMethod(t *testing.T) {
	s := newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{
		"/":                      {Share: weirgrpc.ShareNoSideEffects},
		"/weir.test.Catalog/":    {Share: weirgrpc.ShareAll},
		"/weir.test.Catalog/Put": {},
	}})
	for method, want := range map[string]string{
		"/weir.test.Catalog/Get": "/weir.test.Catalog/", "/weir.test.Catalog/Put": "/weir.test.Catalog/Put", "/other.S/Get": "/",
	} {
		x := s.Explain(context.Background(), method, message("item", "1"))
		if x.Policy != want || (x.Answer == "execute") != (want == "/weir.test.Catalog/") {
			t.Errorf("Explain(%s) = %+v; want the policy %s", method, x, want)
		}
	}
}

// Names of methods that clients make up do not fill the memory.
func TestMethodsAreBounded(t *testing.T) {
	s := newServer(t, weirgrpc.Options{})
	for i := range weirgrpc.MaxMethods + 100 {
		name := "/made.Up/" + strings.Repeat("x", i%1000) + string(rune('a'+i/1000))
		err := s.StreamInterceptor()(nil, emptyStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: name}, func(any, grpc.ServerStream) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	all := s.Stats()
	if last := all[len(all)-1]; len(all) != weirgrpc.MaxMethods+1 || last.Method != "others" || last.Streams != 100 {
		t.Errorf("%d methods, the last is %+v; want %d, and others with 100 streams", len(all), last, weirgrpc.MaxMethods+1)
	}
}
