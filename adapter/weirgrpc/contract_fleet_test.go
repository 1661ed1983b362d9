package weirgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/adapter/weirgrpc"
	"github.com/weir-go/weir/fleet"
)

// naming is a Tier that remembers the names of keys.
type naming struct {
	fleet.Tier
	mu    sync.Mutex
	names map[string]bool // guarded by mu
}

func (n *naming) Acquire(ctx context.Context, k fleet.Key, a fleet.Ask) (fleet.Answer, error) {
	n.mu.Lock()
	n.names[k.Namespace+" "+k.Name] = true
	n.mu.Unlock()
	return n.Tier.Acquire(ctx, k, a)
}

func inFleet(tier fleet.Tier, schema string, g weir.Options) weirgrpc.Options {
	g.Fleet.Config = fleet.Config{Tier: tier}
	o := shared(g)
	p := o.Methods[getMethod]
	p.Schema = schema
	p.Metadata = []string{"authorization"}
	o.Methods[getMethod] = p
	return o
}

func TestG11_OneExecutionForTheFleet(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	leave := make(chan struct{})
	c := &catalog{get: func(ctx context.Context, in *structpb.Struct) (*structpb.Struct, error) {
		<-leave
		_ = grpc.SetHeader(ctx, metadata.Pairs("one", "1"))
		return message("value", in.Fields["item"].GetStringValue()+whoIs(ctx)), nil
	}}
	const instances, callers = 8, 20
	errs := make(chan error, instances*callers)
	ask := func(conn *grpc.ClientConn, user string) {
		var h metadata.MD
		v, err := get(with("authorization", user), conn, "tea ", grpc.Header(&h))
		if err == nil && (v != "tea "+user || fmt.Sprint(h["one"]) != "[1]") {
			err = fmt.Errorf("%s got %q, %v", user, v, h)
		}
		errs <- err
	}
	for range instances {
		conn := serve(t, c, newServer(t, inFleet(tier, "v1", weir.Options{TTL: time.Hour})).ServerOptions())
		for i := range callers {
			go ask(conn, []string{"ada", "bob"}[i%2])
		}
	}
	eventually(t, "two executions", func() bool { return c.gets.Load() == 2 })
	close(leave)
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if n := c.gets.Load(); n != 2 {
		t.Errorf("%d executions; want 2, one for each user", n)
	}
}

func TestG11_NamesHaveTheSchemaAndNothingReadable(t *testing.T) {
	tier := &naming{Tier: fleet.NewMemory(fleet.MemoryOptions{}), names: map[string]bool{}}
	c := &catalog{}
	c.get = func(context.Context, *structpb.Struct) (*structpb.Struct, error) {
		return message("value", fmt.Sprint(c.gets.Load())), nil
	}
	other := inFleet(tier, "v1", weir.Options{TTL: time.Hour})
	p := other.Methods[getMethod]
	p.IgnoreMetadata = []string{"x-tenant"}
	other.Methods[getMethod] = p
	for i, o := range []weirgrpc.Options{
		inFleet(tier, "v1", weir.Options{TTL: time.Hour}),
		inFleet(tier, "v2", weir.Options{TTL: time.Hour}),
		other,
		inFleet(tier, "v1", weir.Options{TTL: time.Hour}), // as the first
	} {
		conn := serve(t, c, newServer(t, o).ServerOptions())
		want := fmt.Sprint([]int{1, 2, 3, 1}[i])
		if got, err := get(with("authorization", "Bearer secret"), conn, "private item"); err != nil || got != want {
			t.Errorf("instance %d got %q, %v; want %q", i, got, err, want)
		}
	}
	tier.mu.Lock()
	defer tier.mu.Unlock()
	if len(tier.names) != 3 {
		t.Errorf("%d names; want 3, by schema and policy", len(tier.names))
	}
	for name := range tier.names {
		if !strings.HasPrefix(name, "grpc"+getMethod+" ") || strings.Contains(name, "secret") || strings.Contains(name, "item") {
			t.Errorf("the Tier sees the name %q", name)
		}
	}
	o := inFleet(tier, "", weir.Options{})
	if _, err := weirgrpc.NewServer(o); err == nil || !strings.Contains(err.Error(), "Schema") {
		t.Errorf("NewServer without a Schema = %v; want that fault", err)
	}
}

// An instance that did not execute the call gets code, message and details.
func TestG6_ErrorsKeepCodeAndDetailsInAFleet(t *testing.T) {
	for _, code := range []codes.Code{codes.NotFound, codes.Unavailable, codes.Internal, codes.ResourceExhausted, codes.Aborted} {
		tier := fleet.NewMemory(fleet.MemoryOptions{})
		g := weir.Options{TTL: time.Hour, NegativeTTL: time.Hour}
		c := &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) { return nil, detailed(code) }}
		for range 2 {
			o := inFleet(tier, "v1", g)
			p := o.Methods[getMethod]
			p.Guard.Fleet.Cooling, p.Guard.Fleet.MaxCooling = time.Minute, time.Minute
			o.Methods[getMethod] = p
			conn := serve(t, c, newServer(t, o).ServerOptions())
			_, err := get(context.Background(), conn, "1")
			if s := status.Convert(err); s.Code() != code || s.Message() != "no such mill" || len(s.Details()) != 1 {
				t.Errorf("%v became %v with %v", code, err, s.Details())
			}
		}
		if n := c.gets.Load(); n != 1 {
			t.Errorf("%v: %d executions; want 1 for both instances", code, n)
		}
	}
}

// A long message of an error fits, without its details.
func TestG6_LongErrorsInAFleet(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	c := &catalog{get: func(context.Context, *structpb.Struct) (*structpb.Struct, error) {
		return nil, status.Error(codes.Aborted, strings.Repeat("long ", 1000))
	}}
	for i := range 2 {
		o := inFleet(tier, "v1", weir.Options{TTL: time.Hour})
		p := o.Methods[getMethod]
		p.Guard.Fleet.Cooling, p.Guard.Fleet.MaxCooling = time.Minute, time.Minute
		o.Methods[getMethod] = p
		_, err := get(context.Background(), serve(t, c, newServer(t, o).ServerOptions()), "1")
		if s := status.Convert(err); s.Code() != codes.Aborted || !strings.HasPrefix(s.Message(), "long long") {
			t.Errorf("instance %d got %.80v", i, err)
		}
	}
	if n := c.gets.Load(); n != 1 {
		t.Errorf("%d executions; want 1", n)
	}
}

func TestG11_ATagIsInvalidatedInTheFleet(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	c := &catalog{}
	c.get = func(ctx context.Context, _ *structpb.Struct) (*structpb.Struct, error) {
		weirgrpc.SetDirectives(ctx, weirgrpc.Directives{Tags: []string{"prices"}})
		return message("value", fmt.Sprint(c.gets.Load())), nil
	}
	var servers []*weirgrpc.Server
	var conns []*grpc.ClientConn
	for range 2 {
		s := newServer(t, inFleet(tier, "v1", weir.Options{TTL: time.Hour}))
		servers, conns = append(servers, s), append(conns, serve(t, c, s.ServerOptions()))
	}
	for round := 1; round <= 2; round++ {
		for _, conn := range conns {
			eventually(t, fmt.Sprint("response ", round), func() bool {
				v, err := get(context.Background(), conn, "1")
				if err != nil {
					t.Fatal(err)
				}
				return v == fmt.Sprint(round)
			})
		}
		if err := servers[0].InvalidateTags(context.Background(), "prices"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWithoutTheTierInstancesWorkAlone(t *testing.T) {
	tier := fleet.NewMemory(fleet.MemoryOptions{})
	if err := tier.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	s, err := weirgrpc.NewServer(inFleet(fleet.WithBreaker(tier, fleet.BreakerOptions{}), "v1", weir.Options{TTL: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil && !errors.Is(err, fleet.ErrUnavailable) {
			t.Error(err)
		}
	}()
	if _, err := get(context.Background(), serve(t, &catalog{}, s.ServerOptions()), "1"); err != nil {
		t.Errorf("Get = %v", err)
	}
}
