package weirgrpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // a compressor
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/fleet"
)

// seenBy returns all metadata that a handler sees, in a fixed form.
func seenBy(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	var parts []string
	for _, k := range []string{"authorization", "cookie", "x-user", "x-token-bin", "grpc-user", "grpc-tags-bin", "content-type", "user-agent", "grpc-timeout"} {
		for _, v := range md[k] {
			parts = append(parts, fmt.Sprintf("%s=%q", k, v))
		}
	}
	return strings.Join(parts, " ")
}

// G1: pairs of callers who must not get each other's response, whether the keys are
// declared or not.
func TestG1_MetadataThatLooksAlike(t *testing.T) {
	for name, pair := range map[string][2][]string{
		"order of values":             {{"x-user", "a", "x-user", "b"}, {"x-user", "b", "x-user", "a"}},
		"a value twice":               {{"x-user", "a"}, {"x-user", "a", "x-user", "a"}},
		"values and a list":           {{"x-user", "a", "x-user", "b"}, {"x-user", "a,b"}},
		"a space":                     {{"x-user", "a b"}, {"x-user", "a", "x-user", "b"}},
		"case of a value":             {{"authorization", "Bearer ada"}, {"authorization", "bearer ada"}},
		"case of a key":               {{"X-User", "a"}, {"x-user", "b"}},
		"a length moved":              {{"x-user", "ab", "authorization", "c"}, {"x-user", "a", "authorization", "bc"}},
		"a key's end in the value":    {{"x-user", "a", "cookie", "x"}, {"x-user", "a", "cookie", "x", "authorization", ""}},
		"empty and absent":            {{"authorization", ""}, {}},
		"binary zeros":                {{"x-token-bin", "\x00"}, {"x-token-bin", "\x00\x00"}},
		"binary that looks encoded":   {{"x-token-bin", "YQ"}, {"x-token-bin", "a"}},
		"binary order":                {{"x-token-bin", "\xff", "x-token-bin", "\x00"}, {"x-token-bin", "\x00", "x-token-bin", "\xff"}},
		"a reserved prefix":           {{"grpc-user", "a"}, {"grpc-user", "b"}},
		"a reserved binary prefix":    {{"grpc-tags-bin", "a"}, {"grpc-tags-bin", "b"}},
		"a user next to a credential": {{"authorization", "Bearer x", "x-user", "a"}, {"authorization", "Bearer x", "x-user", "b"}},
	} {
		for _, declared := range [][]string{nil, {"authorization", "cookie", "x-user", "x-token-bin", "grpc-user", "grpc-tags-bin"}} {
			t.Run(fmt.Sprint(name, declared != nil), func(t *testing.T) {
				o := shared(weir.Options{TTL: time.Hour})
				p := o.Methods[getMethod]
				p.Metadata = declared
				o.Methods[getMethod] = p
				handler := func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
					return message("value", strings.ReplaceAll(seenBy(ctx), `"`, "'")), nil
				}
				conn := serve(t, &catalog{get: handler}, newServer(t, o).ServerOptions())
				var want [2]string
				plain := serve(t, &catalog{get: handler}, nil)
				for i, pairs := range pair {
					var err error
					if want[i], err = get(with(pairs...), plain, "1"); err != nil {
						t.Fatal(err)
					}
				}
				for range 2 {
					for i, pairs := range pair {
						got, err := get(with(pairs...), conn, "1")
						if err != nil || ownPart(got) != ownPart(want[i]) {
							t.Errorf("the caller with %q got %s, %v; want %s", pairs, got, err, want[i])
						}
					}
				}
			})
		}
	}
}

// ownPart is what seenBy says without the metadata that is irrelevant.
func ownPart(seen string) string {
	var kept []string
	for part := range strings.FieldsSeq(seen) {
		if !strings.HasPrefix(part, "content-type=") && !strings.HasPrefix(part, "user-agent=") && !strings.HasPrefix(part, "grpc-timeout=") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, " ")
}

// G1: certificates of one name are different identities if anything else in them differs.
func TestG1_CertificatesOfOneName(t *testing.T) {
	ca := newAuthority(t)
	o := shared(weir.Options{TTL: time.Hour})
	p := o.Methods[getMethod]
	p.Peer = weirgrpc.PeerInKey
	o.Methods[getMethod] = p
	c := &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		from, _ := peer.FromContext(ctx)
		cert := from.AuthInfo.(credentials.TLSInfo).State.PeerCertificates[0]
		return message("value", fmt.Sprint(cert.DNSNames, cert.SerialNumber)), nil
	}}
	address := serveTLS(t, c, newServer(t, o), ca)
	key := ca.issue(t, "ada").PrivateKey.(*ecdsa.PrivateKey)
	for _, user := range []struct {
		san    string
		serial int64
	}{{"ada.example", 100}, {"ada.example", 101}, {"bob.example", 100}, {"ada.example", 100}} {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(user.serial), Subject: pkix.Name{CommonName: "ada"}, DNSNames: []string{user.san},
			NotAfter: time.Now().Add(time.Hour).Truncate(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
		if err != nil {
			t.Fatal(err)
		}
		config := &tls.Config{RootCAs: ca.pool, ServerName: "catalog.test", Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got, err := get(context.Background(), conn, "1"); err != nil || got != fmt.Sprint([]string{user.san}, user.serial) {
			t.Errorf("Get of %v = %q, %v; want the user's own certificate", user, got, err)
		}
	}
}

// G3: of a TLS connection a shared execution sees the certificates and, if it is in the
// key, the server's name: not what belongs to the connection of its first caller.
func TestG3_AConnectionIsNotShared(t *testing.T) {
	state := tls.ConnectionState{
		Version: tls.VersionTLS12, CipherSuite: 1, TLSUnique: []byte("first"), OCSPResponse: []byte("first"), ServerName: "a.example",
		PeerCertificates: []*x509.Certificate{{Raw: []byte("ada")}},
	}
	verified := state
	verified.VerifiedChains = [][]*x509.Certificate{{{Raw: []byte("ada")}, {Raw: []byte("root")}}}
	other := state
	other.VerifiedChains = [][]*x509.Certificate{{{Raw: []byte("ada")}, {Raw: []byte("other root")}}}
	for _, ignore := range []bool{false, true} {
		o := shared(weir.Options{TTL: time.Hour})
		p := o.Methods[getMethod]
		p.Peer, p.IgnoreAuthority = weirgrpc.PeerInKey, ignore
		o.Methods[getMethod] = p
		s := newServer(t, o)
		n := 0
		for _, state := range []tls.ConnectionState{state, verified, other, verified} {
			ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}})
			_, err := call(ctx, s, wrapperspb.String("a"), func(ctx context.Context, req any) (any, error) {
				n++
				from, _ := peer.FromContext(ctx)
				own := from.AuthInfo.(credentials.TLSInfo)
				seen, name := own.State, "a.example"
				if ignore {
					name = ""
				}
				if seen.Version != 0 || seen.CipherSuite != 0 || seen.TLSUnique != nil || seen.OCSPResponse != nil || seen.ServerName != name {
					t.Errorf("IgnoreAuthority %v: the execution sees %+v of the connection", ignore, seen)
				}
				if len(seen.VerifiedChains) != len(state.VerifiedChains) || len(seen.PeerCertificates) != 1 || own.SecurityLevel != credentials.PrivacyAndIntegrity {
					t.Errorf("the execution does not see the identity of its callers: %+v", own)
				}
				return req, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n != 3 {
			t.Errorf("%d executions; want 3: not verified, and by two authorities", n)
		}
	}
}

// G1: metadata that an earlier interceptor forwards to other services is metadata.
func TestG1_ForwardedMetadataIsPartOfTheIdentity(t *testing.T) {
	for name, tt := range map[string]struct {
		metadata, ignore []string
		executions       int
		seen             string
	}{
		"undeclared": {nil, nil, 4, "own"},
		"in the key": {[]string{"authorization"}, nil, 2, "own"},
		"irrelevant": {nil, []string{"authorization"}, 1, ""},
	} {
		o := shared(weir.Options{TTL: time.Hour})
		p := o.Methods[getMethod]
		p.Metadata, p.IgnoreMetadata = tt.metadata, tt.ignore
		o.Methods[getMethod] = p
		s := newServer(t, o)
		n := 0
		for _, user := range []string{"ada", "bob", "ada", "bob"} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "Authorization", user)
			got, err := call(ctx, s, wrapperspb.String("a"), func(ctx context.Context, _ any) (any, error) {
				n++
				md, _ := metadata.FromOutgoingContext(ctx)
				return wrapperspb.String(strings.Join(md["authorization"], ",")), nil
			})
			want := user
			if tt.seen == "" {
				want = ""
			}
			if err != nil || got.(*wrapperspb.StringValue).GetValue() != want {
				t.Errorf("%s: %s gets %v, %v; want what was made for %q", name, user, got, err, want)
			}
		}
		if n != tt.executions {
			t.Errorf("%s: %d executions; want %d", name, n, tt.executions)
		}
	}
}

// annotated is a request, or a response, with more than its message says.
type annotated struct {
	*wrapperspb.StringValue
	user string
}

// G2: what is more than a message shares nothing, and stays what it is.
func TestG2_ATypeThatEmbedsAMessageRunsAlone(t *testing.T) {
	s := newServer(t, shared(weir.Options{TTL: time.Hour}))
	for _, user := range []string{"ada", "bob"} {
		got, err := call(t.Context(), s, annotated{wrapperspb.String("a"), user}, func(_ context.Context, req any) (any, error) {
			return wrapperspb.String(req.(annotated).user), nil
		})
		if err != nil || got.(*wrapperspb.StringValue).GetValue() != user {
			t.Errorf("%s gets %v, %v", user, got, err)
		}
		got, err = call(t.Context(), s, wrapperspb.String("b"), func(context.Context, any) (any, error) {
			return annotated{wrapperspb.String("a"), user}, nil
		})
		if a, ok := got.(annotated); err != nil || !ok || a.user != user {
			t.Errorf("the response for %s is %v, %v", user, got, err)
		}
	}
}

// G2: messages that differ in what == or a printed form does not show share nothing.
func TestG2_MessagesThatLookAlike(t *testing.T) {
	number := func(bits uint64) proto.Message { return wrapperspb.Double(math.Float64frombits(bits)) }
	speed := func(m *descriptorpb.FileOptions_OptimizeMode) proto.Message {
		return &descriptorpb.FileOptions{OptimizeFor: m}
	}
	packed := func(b []byte) proto.Message {
		return &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.StringValue", Value: b}
	}
	for name, pair := range map[string][2]proto.Message{
		"negative zero":            {wrapperspb.Double(0), wrapperspb.Double(math.Copysign(0, -1))},
		"NaNs":                     {number(0x7ff8000000000001), number(0x7ff8000000000002)},
		"an explicit default":      {speed(nil), speed(descriptorpb.FileOptions_SPEED.Enum())},
		"explicit false":           {&descriptorpb.FileOptions{}, &descriptorpb.FileOptions{JavaMultipleFiles: proto.Bool(false)}},
		"an empty optional string": {&descriptorpb.FileOptions{}, &descriptorpb.FileOptions{JavaPackage: proto.String("")}},
		"bytes in an Any":          {packed([]byte("\n\x01a")), packed([]byte("\n\x01b\n\x01a"))},
		"an empty Any":             {&anypb.Any{}, packed(nil)},
		"null and absent":          {&structpb.Struct{}, &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNullValue()}}},
		"an empty list and null":   {&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewNullValue()}}, &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewListValue(&structpb.ListValue{})}}},
		"unknown after known":      {withUnknown(wrapperspb.String("a"), 1), withUnknown(wrapperspb.String("a"), 3)},
		"order of a list":          {&structpb.ListValue{Values: []*structpb.Value{structpb.NewBoolValue(true), structpb.NewNullValue()}}, &structpb.ListValue{Values: []*structpb.Value{structpb.NewNullValue(), structpb.NewBoolValue(true)}}},
	} {
		s := newServer(t, shared(weir.Options{TTL: time.Hour}))
		for range 2 {
			for _, req := range pair {
				want, _ := proto.MarshalOptions{Deterministic: true}.Marshal(req)
				got, err := call(t.Context(), s, req, func(_ context.Context, req any) (any, error) { return req, nil })
				if err != nil {
					t.Fatal(err)
				}
				if b, _ := (proto.MarshalOptions{Deterministic: true}).Marshal(got.(proto.Message)); string(b) != string(want) {
					t.Errorf("%s: the response to %q is %q", name, want, b)
				}
			}
		}
	}
}

// G4: a copy of a response loses nothing, neither a client's nor a server's.
func TestG4_ACopyLosesNothing(t *testing.T) {
	want := wrapperspb.Double(math.Copysign(0, -1))
	c := newClient(t, weirgrpc.ClientOptions{Options: shared(weir.Options{TTL: time.Hour}), OneIdentity: true})
	conn := new(grpc.ClientConn)
	for range 2 {
		got := new(wrapperspb.DoubleValue)
		err := c.UnaryInterceptor()(t.Context(), getMethod, message("item", "1"), got, conn, func(_ context.Context, _ string, _, reply any, _ *grpc.ClientConn, _ ...grpc.CallOption) error {
			reply.(*wrapperspb.DoubleValue).Value = want.Value
			return nil
		})
		if err != nil || !math.Signbit(got.GetValue()) {
			t.Errorf("the reply is %v, %v; want a negative zero", got, err)
		}
	}
	server := newServer(t, shared(weir.Options{TTL: time.Hour}))
	for range 2 {
		got, err := call(t.Context(), server, message("item", "1"), func(context.Context, any) (any, error) { return want, nil })
		if v, ok := got.(*wrapperspb.DoubleValue); err != nil || !ok || v == want || !math.Signbit(v.GetValue()) {
			t.Errorf("the response is %v, %v; want a copy with a negative zero", got, err)
		}
	}
}

// jsonCodec is another encoding of the same messages.
type jsonCodec struct{}

func (jsonCodec) Name() string { return "weirtestjson" }
func (jsonCodec) Marshal(v any) ([]byte, error) {
	return protojson.Marshal(v.(proto.Message))
}
func (jsonCodec) Unmarshal(b []byte, v any) error {
	return protojson.Unmarshal(b, v.(proto.Message))
}

func init() { encoding.RegisterCodec(jsonCodec{}) }

// G3: callers in two encodings share an execution, which does not see theirs, and each gets
// its own.
func TestG3_EncodingsOfCallers(t *testing.T) {
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		return message("value", in.Fields["item"].GetStringValue()+seenBy(ctx)), nil
	}}
	conn := serve(t, c, newServer(t, shared(weir.Options{TTL: time.Hour})).ServerOptions())
	for _, opts := range [][]grpc.CallOption{nil, {grpc.CallContentSubtype("weirtestjson")}, {grpc.UseCompressor("gzip")}, nil} {
		if v, err := get(context.Background(), conn, "1", opts...); v != "1" || err != nil {
			t.Errorf("Get with %v = %q, %v", opts, v, err)
		}
	}
	if n := c.gets.Load(); n != 1 {
		t.Errorf("%d executions; want 1", n)
	}
}

// G10: clients with different credentials do not meet in a fleet by accident: their
// identity, which weir cannot see, has a name.
func TestG10_ClientsInAFleetNameTheirIdentity(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	defer tier.Close(context.Background())
	o := weirgrpc.ClientOptions{Options: inFleet(tier, "v1", weir.Options{TTL: time.Hour}), OneIdentity: true}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "Fleet.Namespace") {
		t.Errorf("Validate = %v; want a fault in Fleet.Namespace", err)
	}
	for _, user := range []string{"ada", "bob", "ada"} {
		o := weirgrpc.ClientOptions{Options: inFleet(tier, "v1", weir.Options{TTL: time.Hour}), OneIdentity: true}
		p := o.Methods[getMethod]
		p.Guard.Fleet.Namespace = user
		o.Methods[getMethod] = p
		dial := append(newClient(t, o).DialOptions(), grpc.WithPerRPCCredentials(perRPC{"authorization", user}))
		if got, err := get(context.Background(), serve(t, personal(), nil, dial...), "1"); err != nil || got != user {
			t.Errorf("Get of %s = %q, %v", user, got, err)
		}
	}
}

// G10: a caller of the interceptor without a connection shares nothing.
func TestG10_WithoutAConnectionNothingIsShared(t *testing.T) {
	c := newClient(t, weirgrpc.ClientOptions{Options: shared(weir.Options{TTL: time.Hour}), OneIdentity: true})
	n := 0
	for range 2 {
		err := c.UnaryInterceptor()(t.Context(), getMethod, message("item", "1"), new(structpb.Struct), nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			n++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n != 2 {
		t.Errorf("%d calls; want 2", n)
	}
}
