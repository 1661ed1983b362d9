package weirgrpc

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Whatever another instance has written is decoded or refused; what is decoded can be
// encoded again, and means the same.
func FuzzCodec(f *testing.F) {
	c := codec{&policy{fleet: true}}
	for _, r := range []*response{
		{msg: wrapperspb.String("a"), header: metadata.Pairs("one", "1", "one", "2"), trailer: metadata.Pairs("two-bin", "\xff")},
		{err: status.Error(codes.NotFound, "no such mill")},
	} {
		b, err := c.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r, again *response
		if c.Unmarshal(data, &r) != nil {
			return
		}
		b, err := c.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Unmarshal(b, &again); err != nil {
			t.Fatalf("%x became %x: %v", data, b, err)
		}
		if (r.msg == nil) != (again.msg == nil) || r.msg != nil && !proto.Equal(r.msg, again.msg) || status.Code(r.err) != status.Code(again.err) || len(r.header) != len(again.header) {
			t.Fatalf("%+v became %+v", r, again)
		}
	})
}
