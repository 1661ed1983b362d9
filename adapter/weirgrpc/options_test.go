package weirgrpc_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

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

// C8: the number of names in the Stats, and so of label values in metrics, is bounded, and
// clients choose none of them.
func TestC8_MethodsAreBounded(t *testing.T) {
	const declared = "/made.Up/Declared"
	s := newServer(t, weirgrpc.Options{Methods: map[string]weirgrpc.Policy{declared: {}}})
	stream := func(service any, method string) {
		t.Helper()
		info := &grpc.StreamServerInfo{FullMethod: method}
		if err := s.StreamInterceptor()(service, emptyStream{ctx: t.Context()}, info, func(any, grpc.ServerStream) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	stream(nil, "/made.Up/ByAClient") // of the handler of unknown services
	stream(t, "others")
	stream(t, "/not\xffUTF-8")
	stream(t, "/"+strings.Repeat("x", 256))
	if all := s.Stats(); len(all) != 1 || all[0].Method != "others" || all[0].Streams != 4 {
		t.Errorf("the Stats are %+v; want others with 4 streams", all)
	}
	for i := range weirgrpc.MaxCounted + 100 {
		stream(t, "/some.Service/"+strconv.Itoa(i))
	}
	stream(nil, declared)
	all := s.Stats()
	if last := all[len(all)-1]; len(all) != weirgrpc.MaxCounted+2 || last.Method != "others" || last.Streams != 104 {
		t.Errorf("%d methods, the last is %+v; want %d, and others with 104 streams", len(all), last, weirgrpc.MaxCounted+2)
	}
	if got := statsOf(all, declared).Streams; got != 1 {
		t.Errorf("%d streams of the declared method; want 1", got)
	}
}

// C8: a client chooses no name that is counted, also on a real connection.
func TestC8_UnknownServicesAreCountedTogether(t *testing.T) {
	s := newServer(t, weirgrpc.Options{})
	unknown := grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil })
	conn := serve(t, &catalog{}, append(s.ServerOptions(), unknown))
	for _, method := range []string{"/secret.Service/A", "/secret.Service/B"} {
		ss, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
		if err != nil {
			t.Fatal(err)
		}
		if err := ss.RecvMsg(new(structpb.Struct)); !errors.Is(err, io.EOF) {
			t.Fatalf("the stream ends with %v; want EOF", err)
		}
	}
	if _, err := get(t.Context(), conn, "tea"); err != nil {
		t.Fatal(err)
	}
	all := s.Stats()
	if len(all) != 2 || all[0].Method != getMethod || all[1].Method != "others" || all[1].Calls != 2 {
		t.Errorf("the Stats are %+v; want %s, and 2 calls of others", all, getMethod)
	}
}

// M4: a limiter that cannot work is an error of Validate, and not of each call.
func TestM4_LimitersAreChecked(t *testing.T) {
	none := (*limit.Concurrency)(nil)
	err := weirgrpc.Options{Limiter: none, Streams: none, Methods: map[string]weirgrpc.Policy{"/": {
		Limiter: none, Budget: none, Cost: func(string, proto.Message) int { return 1 },
	}}}.Validate()
	for _, field := range []string{"Options.Limiter", "Options.Streams", `Options.Methods["/"].Limiter`, `Options.Methods["/"].Budget`} {
		if err == nil || !strings.Contains(err.Error(), field+" is") {
			t.Errorf("Validate = %v; want a fault in %s", err, field)
		}
	}
}
