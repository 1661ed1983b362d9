package weirgrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/option"
)

// ClientOptions configure a Client.
type ClientOptions struct {
	Options

	// OneIdentity declares that all calls of the connection have one identity, whatever
	// their contexts. Without it a Client shares nothing: the credentials of the
	// connection, and what they take from the context of a call, are attached to a call
	// after its interceptors have run. A call with credentials among its call options
	// never shares.
	//
	// With it the Client serves one connection, the one of its first call. The calls of
	// others are admitted only. In a fleet, all Clients of one Guard.Fleet.Namespace must
	// have the same identity and server. The Namespace is required there, because neither
	// can be seen.
	OneIdentity bool
}

// A Client has interceptors for a gRPC client connection. Create one for each
// connection with NewClient; the zero Client is not usable. It is safe for concurrent
// use.
type Client struct {
	e    *engine
	one  bool
	conn atomic.Pointer[grpc.ClientConn] // with one: the connection of the first call
}

// Validate returns all faults of o at once, joined by errors.Join, each an
// *OptionError; or nil. NewClient calls it.
func (o ClientOptions) Validate() error {
	f := &option.Faults{Package: "weirgrpc", Prefix: "ClientOptions."}
	f.Adopt("", "Options.", o.Options.Validate())
	for _, pattern := range slices.Sorted(maps.Keys(o.Methods)) {
		share, g := o.Methods[pattern].Share, o.Methods[pattern].Guard
		f.Check(o.OneIdentity || share == ShareNone, fmt.Sprintf("Methods[%q].Share", pattern), share, "none without OneIdentity")
		f.Check(g.Fleet.Tier == nil || g.Fleet.Namespace != "", fmt.Sprintf("Methods[%q].Guard.Fleet.Namespace", pattern), `""`,
			"given with Tier: a name for the server and the identity of the connection")
	}
	return f.Err()
}

// NewClient returns a Client, or an error that joins an *OptionError for every option
// that is out of bounds. A Policy with Share without OneIdentity is one of them.
func NewClient(o ClientOptions) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	e, err := newEngine(o.Options, nil)
	if err != nil {
		return nil, err
	}
	return &Client{e: e, one: o.OneIdentity}, nil
}

// DialOptions returns both interceptors as options of grpc.NewClient. Interceptors of
// options before them run for each call, those after them for each call that leaves.
func (c *Client) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(c.UnaryInterceptor()), grpc.WithChainStreamInterceptor(c.StreamInterceptor())}
}

// UnaryInterceptor returns the interceptor of calls.
func (c *Client) UnaryInterceptor() grpc.UnaryClientInterceptor { return c.unary }

// StreamInterceptor returns the interceptor of streams, which only admits them.
func (c *Client) StreamInterceptor() grpc.StreamClientInterceptor { return c.stream }

// Name is like Server.Name.
func (c *Client) Name() string { return c.e.o.Name }

// Stats is like Server.Stats. All methods count as implemented.
func (c *Client) Stats() []inspect.MethodStats { return c.e.stats() }

// Guards is like Server.Guards.
func (c *Client) Guards() []weir.Inspector { return c.e.inspectors() }

// Limiters is like Server.Limiters.
func (c *Client) Limiters() []limit.Limiter { return c.e.limiters() }

// PartsOf is like Server.PartsOf.
func (c *Client) PartsOf(method string) (guard weir.Inspector, calls, streams limit.Limiter) {
	return c.e.partsOf(method)
}

// InvalidateAll removes all stored responses. It is weir.Guard.InvalidateAll of all
// Guards, and joins their errors.
func (c *Client) InvalidateAll(ctx context.Context) error {
	var err error
	for _, g := range c.e.guards() {
		err = errors.Join(err, g.InvalidateAll(ctx))
	}
	return err
}

// Close cancels calls in the background and waits for them until ctx ends. Call it
// before grpc.ClientConn.Close. Afterwards fresh responses are still served; every
// other call is Unavailable. It may be called again.
func (c *Client) Close(ctx context.Context) error { return c.e.close(ctx) }

func (c *Client) unary(ctx context.Context, name string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	m := c.e.method(name, true)
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx, err := c.e.enter(ctx, m, c.e.priority(md))
	if err != nil {
		return err
	}
	began, answer := time.Now(), errBroken
	defer func() { m.answer(ctx, began, answer) }()
	answer = c.call(ctx, m, md, req, reply, cc, invoker, opts)
	return answer
}

// call executes a call that has entered, or gets a shared response.
func (c *Client) call(ctx context.Context, m *method, md metadata.MD, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts []grpc.CallOption) error {
	key, x, why := c.identify(ctx, m, md, req, reply, cc, opts)
	if why == shareable {
		x.invoker, x.cc = invoker, cc
		m.policy.learn(reply.(proto.Message))
		m.policy.asks(m.name, x.of)
		r, alone, err := c.e.share(ctx, m, key, x)
		if !alone {
			return deliver(r, err, reply, opts)
		}
		m.counts.private.Add(1)
	} else {
		m.counts.notShared[why].Add(1)
	}
	return c.e.alone(ctx, m, req, func(ctx context.Context) (int, error) {
		opts, said := m.policy.listen(opts)
		err := invoker(ctx, m.name, req, reply, cc, opts...)
		return m.policy.spent(m.name, resultOf(reply, err), said.trailer, said.header), err
	})
}

// identify returns the key of a call and what executes it, or why it shares nothing.
func (c *Client) identify(ctx context.Context, m *method, md metadata.MD, req, reply any, cc *grpc.ClientConn, opts []grpc.CallOption) (Key, *clientCall, reason) {
	switch {
	case !m.safe:
		return Key{}, nil, notSafe
	case !c.one || cc == nil || !c.conn.CompareAndSwap(nil, cc) && c.conn.Load() != cc:
		return Key{}, nil, byConnection
	}
	id := &identity{}
	if !id.addMetadata(m.policy, md) {
		return Key{}, nil, byMetadata
	}
	kept, ok := id.addOptions(opts)
	if !ok {
		return Key{}, nil, byOption
	}
	to, ok := messageOf(reply)
	if !ok {
		return Key{}, nil, byMessage
	}
	id.text(string(to.ProtoReflect().Descriptor().FullName()))
	key, why := id.finish(ctx, m.policy, m.name, req, c.e.o.MaxRequest)
	if why != shareable {
		return Key{}, nil, why
	}
	x := &clientCall{id: id, opts: kept, of: req.(proto.Message).ProtoReflect().Type(), reply: to.ProtoReflect().Type()}
	return key, x, shareable
}

// A clientCall sends a call of a client.
type clientCall struct {
	invoker   grpc.UnaryInvoker
	cc        *grpc.ClientConn
	id        *identity
	opts      []grpc.CallOption
	of, reply protoreflect.MessageType
}

// run implements execution. It sends a message made from the key, because the caller that
// started the call may leave, and its message is its own.
func (c *clientCall) run(ctx context.Context, key Key) (*response, Directives, error) {
	req, reply := c.of.New().Interface(), c.reply.New().Interface()
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal([]byte(key.message), req); err != nil {
		return nil, Directives{}, err
	}
	ctx = metadata.NewOutgoingContext(ctx, c.id.shown.Copy())
	r := &response{}
	opts := append(c.opts[:len(c.opts):len(c.opts)], grpc.Header(&r.header), grpc.Trailer(&r.trailer))
	err := c.invoker(ctx, key.Method, req, reply, c.cc, opts...)
	if err == nil {
		r.keep(reply)
	}
	return r, Directives{}, err
}

// deliver gives r, or err, to a caller.
func deliver(r *response, err error, reply any, opts []grpc.CallOption) error {
	if r == nil {
		return err
	}
	for _, o := range opts {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = r.header.Copy()
		case grpc.TrailerCallOption:
			*o.TrailerAddr = r.trailer.Copy()
		}
	}
	if err != nil || r.msg == nil {
		return err
	}
	return copyInto(reply.(proto.Message), r)
}

// copyInto makes to a copy of the message of r, which is of the same name. Their types can
// differ: one may be generated and the other dynamic.
func copyInto(to proto.Message, r *response) error {
	proto.Reset(to)
	if !r.exact && to.ProtoReflect().Descriptor() == r.msg.ProtoReflect().Descriptor() {
		proto.Merge(to, r.msg)
		return nil
	}
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(r.msg)
	if err != nil {
		return err
	}
	return proto.UnmarshalOptions{AllowPartial: true}.Unmarshal(b, to)
}

func (c *Client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, name string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	m := c.e.method(name, true)
	md, _ := metadata.FromOutgoingContext(ctx)
	ctx, err := c.e.enter(ctx, m, c.e.priority(md))
	if err != nil {
		return nil, err
	}
	st, err := c.e.open(ctx, m, !desc.ClientStreams)
	if err != nil {
		m.counts.answered(ctx, err)
		return nil, err
	}
	ctx, cancel := st.ctx, func() {}
	if st.bill != nil {
		ctx, cancel = context.WithCancel(ctx)
	}
	opts, said := m.policy.listen(opts)
	var over atomic.Bool
	end := func(trailer, header metadata.MD, err error) {
		if over.Swap(true) {
			return
		}
		cancel()
		st.end(err, trailer, header)
	}
	opened := false
	defer func() {
		if !opened { // also after a panic
			end(nil, nil, errBroken)
		}
	}()
	finish := grpc.OnFinish(func(err error) { end(said.trailer, said.header, err) })
	s, err := streamer(ctx, desc, cc, name, append(opts[:len(opts):len(opts)], finish)...)
	if err != nil {
		return nil, err
	}
	opened = true
	if st.bill != nil {
		s = billedClientStream{s, st.bill, func() { end(nil, nil, nil) }}
	}
	return s, nil
}
