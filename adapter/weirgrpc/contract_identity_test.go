package weirgrpc_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
)

// whoIs returns what a handler can know of its caller.
func whoIs(ctx context.Context) string {
	var parts []string
	md, _ := metadata.FromIncomingContext(ctx)
	for _, k := range []string{"authorization", "x-user", "cookie", "x-token-bin"} {
		parts = append(parts, md.Get(k)...)
	}
	if p, ok := peer.FromContext(ctx); ok {
		if t, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(t.State.PeerCertificates) > 0 {
			parts = append(parts, t.State.PeerCertificates[0].Subject.CommonName)
		}
	}
	return strings.Join(parts, "+")
}

func personal() *catalog {
	return &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		return message("value", whoIs(ctx)), nil
	}}
}

// perRPC are credentials of a connection or of a call.
type perRPC struct{ key, value string }

func (p perRPC) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{p.key: p.value}, nil
}
func (perRPC) RequireTransportSecurity() bool { return false }

func TestG1_UsersNeverSeeEachOthersResponses(t *testing.T) {
	type user struct {
		ctx  func() context.Context
		opts []grpc.CallOption
		want string
	}
	byMetadata := func(key, value string) user {
		return user{ctx: func() context.Context { return with(key, value) }, want: value}
	}
	byCredentials := func(key, value string) user {
		return user{context.Background, []grpc.CallOption{grpc.PerRPCCredentials(perRPC{key, value})}, value}
	}
	for name, users := range map[string][2]user{
		"authorization":     {byMetadata("authorization", "Bearer ada"), byMetadata("authorization", "Bearer bob")},
		"per-RPC":           {byCredentials("authorization", "Bearer ada"), byCredentials("authorization", "Bearer bob")},
		"custom metadata":   {byMetadata("x-user", "ada"), byMetadata("x-user", "bob")},
		"binary metadata":   {byMetadata("x-token-bin", "ada"), byMetadata("x-token-bin", "bob")},
		"cookie":            {byMetadata("cookie", "sid=ada"), byMetadata("cookie", "sid=bob")},
		"one is anonymous":  {{ctx: context.Background}, byMetadata("x-user", "bob")},
		"other is not":      {byMetadata("x-user", "ada"), {ctx: context.Background}},
		"one has both":      {byMetadata("authorization", "Bearer ada"), {ctx: func() context.Context { return with("authorization", "Bearer ada", "x-user", "b") }, want: "Bearer ada+b"}},
		"moved between two": {{ctx: func() context.Context { return with("x-user", "a", "x-user", "b") }, want: "a+b"}, {ctx: func() context.Context { return with("x-user", "a+b") }, want: "a+b"}},
	} {
		for _, declared := range [][]string{nil, {"authorization", "x-user", "cookie", "x-token-bin"}} {
			t.Run(fmt.Sprint(name, declared), func(t *testing.T) {
				o := shared(weir.Options{TTL: time.Hour, StaleIfError: 2 * time.Hour})
				p := o.Methods[getMethod]
				p.Metadata = declared
				o.Methods[getMethod] = p
				c := personal()
				conn := serve(t, c, newServer(t, o).ServerOptions())
				for range 3 {
					for _, u := range users {
						if got, err := get(u.ctx(), conn, "1", u.opts...); err != nil || got != u.want {
							t.Fatalf("Get = %q, %v; want %q", got, err, u.want)
						}
					}
				}
				if declared != nil && c.gets.Load() != 2 {
					t.Errorf("%d executions with the keys declared; want 2, one for each user", c.gets.Load())
				}
			})
		}
	}
}

// Callers that wait at the same time are not one either.
func TestG1_UsersThatWaitTogether(t *testing.T) {
	c := personal()
	inner, enter, leave := c.get, make(chan struct{}, 2), make(chan struct{})
	c.get = func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		enter <- struct{}{}
		<-leave
		return inner(ctx, in)
	}
	conn := serve(t, c, newServer(t, shared(weir.Options{})).ServerOptions())
	got := make(chan string, 2)
	for _, user := range []string{"ada", "bob"} {
		go func() {
			v, err := get(with("x-user", user), conn, "1")
			got <- fmt.Sprint(user, "=", v, err)
		}()
	}
	<-enter
	<-enter
	close(leave)
	for range 2 {
		if g := <-got; g != "ada=ada<nil>" && g != "bob=bob<nil>" {
			t.Errorf("Get: %s; want the user's own response", g)
		}
	}
}

func TestG1_ClientCertificates(t *testing.T) {
	ca := newAuthority(t)
	for name, tt := range map[string]struct {
		rule       weirgrpc.PeerRule
		executions int64
		want       [2]string
	}{
		"alone":   {weirgrpc.PeerAlone, 4, [2]string{"ada", "bob"}},
		"in key":  {weirgrpc.PeerInKey, 2, [2]string{"ada", "bob"}},
		"ignored": {weirgrpc.PeerIgnored, 1, [2]string{"", ""}}, // the handler does not see them
	} {
		t.Run(name, func(t *testing.T) {
			o := shared(weir.Options{TTL: time.Hour})
			p := o.Methods[getMethod]
			p.Peer = tt.rule
			o.Methods[getMethod] = p
			c := personal()
			address := serveTLS(t, c, newServer(t, o), ca)
			for i, user := range []string{"ada", "bob"} {
				conn := dialTLS(t, address, ca, user)
				for range 2 {
					if got, err := get(context.Background(), conn, "1"); err != nil || got != tt.want[i] {
						t.Errorf("Get of %s = %q, %v; want %q", user, got, err, tt.want[i])
					}
				}
			}
			if n := c.gets.Load(); n != tt.executions {
				t.Errorf("%d executions; want %d", n, tt.executions)
			}
		})
	}
}

// Without client certificates, calls over TLS share; by another name of the server they
// do not.
func TestG1_AuthorityIsInTheKey(t *testing.T) {
	for _, ignore := range []bool{false, true} {
		o := shared(weir.Options{TTL: time.Hour})
		p := o.Methods[getMethod]
		p.IgnoreAuthority = ignore
		o.Methods[getMethod] = p
		c := &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			return message("value", strings.Join(md.Get(":authority"), "")), nil
		}}
		options := newServer(t, o).ServerOptions()
		var got []string
		for _, name := range []string{"a.example", "b.example", "a.example"} {
			v, err := get(context.Background(), serve(t, c, options, grpc.WithAuthority(name)), "1")
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, v)
		}
		want, executions := []string{"a.example", "b.example", "a.example"}, int64(2)
		if ignore {
			want, executions = []string{"", "", ""}, 1
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || c.gets.Load() != executions {
			t.Errorf("IgnoreAuthority %v: the handler saw %q in %d executions; want %q in %d", ignore, got, c.gets.Load(), want, executions)
		}
	}
}

func TestG1_ScopeIsPartOfTheIdentity(t *testing.T) {
	type tenant struct{}
	o := shared(weir.Options{TTL: time.Hour})
	p := o.Methods[getMethod]
	p.IgnoreMetadata = []string{"authorization"}
	p.Scope = func(ctx context.Context, _ string) (string, bool) {
		v, _ := ctx.Value(tenant{}).(string)
		return v, v != "admin"
	}
	o.Methods[getMethod] = p
	c := &catalog{get: func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		return message("value", ctx.Value(tenant{}).(string)), nil
	}}
	authenticate := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		return next(context.WithValue(ctx, tenant{}, md.Get("authorization")[0]), req)
	}
	s := newServer(t, o)
	conn := serve(t, c, append([]grpc.ServerOption{grpc.ChainUnaryInterceptor(authenticate)}, s.ServerOptions()...))
	for _, user := range []string{"north", "south", "north", "admin", "admin"} {
		if got, err := get(with("authorization", user), conn, "1"); err != nil || got != user {
			t.Errorf("Get of %s = %q, %v", user, got, err)
		}
	}
	if n := c.gets.Load(); n != 4 {
		t.Errorf("%d executions; want 4: north, south, and admin twice", n)
	}
	if n := statsOf(s.Stats(), getMethod).NotShared.Scope; n != 2 {
		t.Errorf("NotShared.Scope = %d; want 2", n)
	}
}

// An authority makes certificates.
type certAuthority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *certAuthority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &certAuthority{key: key, pool: x509.NewCertPool()}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.pool.AddCert(ca.cert)
	return ca
}

func (ca *certAuthority) issue(t *testing.T, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serveTLS(t *testing.T, c *catalog, s *weirgrpc.Server, ca *certAuthority) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	creds := credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{ca.issue(t, "catalog.test")},
		ClientAuth:   tls.VerifyClientCertIfGiven, ClientCAs: ca.pool,
	})
	server := grpc.NewServer(append(s.ServerOptions(), grpc.Creds(creds))...)
	server.RegisterService(&catalogDesc, c)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
	})
	return listener.Addr().String()
}

// dialTLS connects as user, or without a certificate if that is empty.
func dialTLS(t *testing.T, address string, ca *certAuthority, user string) *grpc.ClientConn {
	t.Helper()
	config := &tls.Config{RootCAs: ca.pool, ServerName: "catalog.test"}
	if user != "" {
		config.Certificates = []tls.Certificate{ca.issue(t, user)}
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestG1_AnonymousTLSClientsShare(t *testing.T) {
	ca := newAuthority(t)
	c := personal()
	address := serveTLS(t, c, newServer(t, shared(weir.Options{TTL: time.Hour})), ca)
	for _, user := range []string{"", "", "ada", ""} {
		if got, err := get(context.Background(), dialTLS(t, address, ca, user), "1"); err != nil || got != user {
			t.Errorf("Get of %q = %q, %v", user, got, err)
		}
	}
	if n := c.gets.Load(); n != 2 {
		t.Errorf("%d executions; want 2: one for all clients without a certificate, one for ada", n)
	}
}
