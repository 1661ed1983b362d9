package weirgrpc

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inspect"
	"github.com/weir-go/weir/limit"
)

// A Server has interceptors for a gRPC server. Create one with NewServer; the zero
// Server is not usable. It is safe for concurrent use, and can serve several gRPC
// servers that have the same handlers.
type Server struct{ e *engine }

// NewServer returns a Server, or an error that joins an *OptionError for every option
// that is out of bounds.
func NewServer(o Options) (*Server, error) {
	e, err := newEngine(o, (*response).forCaller)
	if err != nil {
		return nil, err
	}
	return &Server{e}, nil
}

// ServerOptions returns both interceptors as options of grpc.NewServer. Interceptors of
// options before them run for each call, those after them for each execution.
func (s *Server) ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(s.UnaryInterceptor()), grpc.ChainStreamInterceptor(s.StreamInterceptor())}
}

// UnaryInterceptor returns the interceptor of calls. Interceptors that authenticate
// callers run before it, and leave the credentials in the metadata or are covered by
// Policy.Scope. Interceptors that run after it see a shared execution once.
func (s *Server) UnaryInterceptor() grpc.UnaryServerInterceptor { return s.unary }

// StreamInterceptor returns the interceptor of streams, which only admits them.
func (s *Server) StreamInterceptor() grpc.StreamServerInterceptor { return s.stream }

// Name returns Options.Name, or its default. It is the label of metrics.
func (s *Server) Name() string { return s.e.o.Name }

// Stats returns the counts of all methods that were called, sorted by name. At most
// MaxCounted are counted by name, and those in Options.Methods. Methods that no service
// implements are counted together, because clients choose their names.
func (s *Server) Stats() []inspect.MethodStats { return s.e.stats() }

// Guards returns the Guards behind the policies with Share, for consoles and collectors
// of metrics. Each is named Options.Name and the key of its Policy in Options.Methods.
func (s *Server) Guards() []weir.Inspector { return s.e.inspectors() }

// Limiters returns the limiters of the Options and of their policies, for consoles and
// collectors of metrics.
func (s *Server) Limiters() []limit.Limiter { return s.e.limiters() }

// PartsOf returns what serves the calls of method, for consoles: the Guard of its policy,
// nil if it shares nothing, and the limiters of its calls and of its streams.
func (s *Server) PartsOf(method string) (guard weir.Inspector, calls, streams limit.Limiter) {
	return s.e.partsOf(method)
}

// InvalidateTags removes the responses with these tags, which handlers set with
// SetDirectives. It is weir.Guard.InvalidateTags of all Guards, and joins their errors.
func (s *Server) InvalidateTags(ctx context.Context, tags ...string) error {
	var err error
	for _, g := range s.e.guards() {
		err = errors.Join(err, g.InvalidateTags(ctx, tags...))
	}
	return err
}

// Close cancels executions in the background and waits for them until ctx ends. Call it
// after grpc.Server.GracefulStop. Afterwards fresh responses are still served; every
// other call is Unavailable. It may be called again.
func (s *Server) Close(ctx context.Context) error { return s.e.close(ctx) }

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	call := ctx
	defer func() { pushback(call, err) }()
	m := s.e.method(info.FullMethod, true)
	md, _ := metadata.FromIncomingContext(ctx)
	if ctx, err = s.e.enter(ctx, m, s.e.priority(md)); err != nil {
		return nil, err
	}
	began, answer := time.Now(), errBroken
	defer func() { m.answer(ctx, began, answer) }()
	resp, answer = s.call(ctx, m, md, req, handler)
	return resp, answer
}

// call executes a call that has entered, or gets a shared response.
func (s *Server) call(ctx context.Context, m *method, md metadata.MD, req any, handler grpc.UnaryHandler) (any, error) {
	key, id, why := s.e.identify(ctx, m, md, req)
	if why == shareable {
		x := &serverCall{handler: handler, id: id, of: req.(proto.Message).ProtoReflect().Type()}
		m.policy.asks(m.name, x.of)
		r, alone, err := s.e.share(ctx, m, key, x)
		if !alone {
			return s.reply(ctx, r, err)
		}
		m.counts.private.Add(1)
	} else {
		m.counts.notShared[why].Add(1)
	}
	var resp any
	err := s.e.alone(ctx, m, req, func(ctx context.Context) (units int, err error) {
		resp, err = handler(ctx, req)
		trailer, header := m.policy.outgoing(ctx)
		return m.policy.spent(m.name, resultOf(resp, err), trailer, header), err
	})
	return resp, err
}

// priority returns the values of the priority in md.
func (e *engine) priority(md metadata.MD) []string {
	if e.o.PriorityKey == "" {
		return nil
	}
	return md[e.o.PriorityKey]
}

// identify returns the key of a server's call, or why the call shares nothing.
func (e *engine) identify(ctx context.Context, m *method, md metadata.MD, req any) (Key, *identity, reason) {
	id := &identity{}
	if !m.safe {
		return Key{}, id, notSafe
	}
	if !id.addMetadata(m.policy, md) || !id.addForwarded(ctx, m.policy) {
		return Key{}, id, byMetadata
	}
	from, _ := peer.FromContext(ctx)
	if !id.addPeer(m.policy, from) {
		return Key{}, id, byPeer
	}
	key, why := id.finish(ctx, m.policy, m.name, req, e.o.MaxRequest)
	return key, id, why
}

// reply sets the header and trailer of r for the call with ctx, and returns its
// response. The stream of the call may refuse them, for example because an earlier
// interceptor has sent its header: the handler alone would have got that error.
func (s *Server) reply(ctx context.Context, r *response, err error) (any, error) {
	if r == nil {
		return nil, err
	}
	if len(r.header) > 0 {
		_ = grpc.SetHeader(ctx, r.header.Copy())
	}
	if len(r.trailer) > 0 {
		_ = grpc.SetTrailer(ctx, r.trailer.Copy())
	}
	switch {
	case err != nil:
		return nil, err
	case r.msg != nil:
		return r.msg, nil
	}
	return r.raw, nil
}

// A serverCall executes the handler of a server.
type serverCall struct {
	handler grpc.UnaryHandler
	id      *identity
	of      protoreflect.MessageType // of the request
}

// run implements execution. The handler gets a message made from the key, because the
// caller that started the execution may leave, and its message is its own.
func (c *serverCall) run(ctx context.Context, key Key) (*response, Directives, error) {
	req := c.of.New().Interface()
	if err := (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal([]byte(key.message), req); err != nil {
		return nil, Directives{}, err
	}
	stream, box := &recorder{method: key.Method}, &directivesBox{}
	ctx = grpc.NewContextWithServerTransportStream(ctx, stream)
	ctx = metadata.NewIncomingContext(ctx, c.id.shown.Copy())
	if c.id.sent != nil {
		ctx = metadata.NewOutgoingContext(ctx, c.id.sent.Copy())
	}
	ctx = peer.NewContext(ctx, c.id.peer)
	ctx = context.WithValue(ctx, directivesKey{}, box)
	resp, err := c.handler(ctx, req)
	r := &response{}
	r.header, r.trailer = stream.end()
	if err == nil {
		if m, ok := messageOf(resp); ok {
			r.keep(m) // the handler may keep its own
		} else {
			r.raw = resp
		}
	}
	return r, box.end(), err
}

func (s *Server) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	ctx := ss.Context()
	call := ctx
	defer func() { pushback(call, err) }()
	m := s.e.method(info.FullMethod, srv != nil) // nil: the handler of unknown services
	md, _ := metadata.FromIncomingContext(ctx)
	if ctx, err = s.e.enter(ctx, m, s.e.priority(md)); err != nil {
		return err
	}
	st, err := s.e.open(ctx, m, !info.IsClientStream)
	if err != nil {
		m.counts.answered(ctx, err)
		return err
	}
	err = errBroken
	defer func() {
		trailer, header := m.policy.outgoing(ctx)
		st.end(err, trailer, header)
	}()
	if s.e.o.Observer != nil {
		ss = observedServerStream{ss, st.ctx}
	}
	if st.bill != nil {
		ss = billedServerStream{ss, st.bill}
	}
	err = statusOf(handler(srv, ss), false)
	return err
}
