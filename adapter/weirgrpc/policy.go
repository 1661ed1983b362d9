package weirgrpc

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/limit"
)

// A policy is a Policy in use, with the Guard that shares its calls.
type policy struct {
	Policy
	pattern  string
	keys     []string // of the identity
	ignored  []string // irrelevant
	unary    limit.Limiter
	streams  limit.Limiter
	calls    limit.Limiter               // streams, without Budget
	budget   limit.Limiter               // Budget, or no limit
	guard    *weir.Guard[Key, *response] // nil without Share
	fleet    bool
	requests sync.Map // of string, a method, to protoreflect.MessageType: types of requests; only with Cost
	types    sync.Map // of protoreflect.FullName to protoreflect.MessageType: types of responses; only with a fleet
}

// healthService is exempt from admission unless it has a policy: a busy server is not
// an unhealthy one.
const healthService = "/grpc.health.v1.Health/"

// newPolicy returns p for the methods of pattern, under the options o, which have their
// defaults. clone copies a response for each caller; nil: callers do not modify it.
func newPolicy(o *Options, pattern string, p Policy, clone func(*response) *response) (*policy, error) {
	own := &policy{
		Policy: p, pattern: pattern,
		keys:    p.Metadata,
		ignored: append(slices.Clip(slices.Clone(o.IgnoreMetadata)), p.IgnoreMetadata...),
		unary:   o.Limiter, streams: o.Streams,
		fleet: p.Guard.Fleet.Tier != nil,
	}
	if p.Limiter != nil {
		own.unary, own.streams = p.Limiter, p.Limiter
	}
	if p.Cost != nil {
		own.unary, own.streams = limit.PerCall(own.unary), limit.PerCall(own.streams)
	}
	own.budget, own.calls = limit.All(), own.streams
	if p.Budget != nil {
		own.budget = p.Budget
		own.unary, own.streams = limit.All(p.Budget, own.unary), limit.All(p.Budget, own.streams)
	}
	if p.Share == ShareNone {
		return own, nil
	}
	g := p.Guard
	g.Name = o.Name + pattern
	g.Limiter = own.unary
	g.Classify = own.classify
	if g.MaxEntries == 0 && g.MaxWeight == 0 {
		g.MaxWeight = DefaultMaxBytes
	}
	if g.Observer == nil {
		g.Observer = o.Observer
	}
	if own.fleet {
		g.Fleet.Namespace = cmp.Or(g.Fleet.Namespace, o.Name) + pattern
		g.Fleet.Codec = codec{own}
	}
	var err error
	prefix := own.fingerprint()
	var cost func(Key) int
	if p.Cost != nil {
		cost = own.estimate
	}
	var weigh func(Key, *response) uint32
	if g.MaxWeight > 0 {
		weigh = func(k Key, r *response) uint32 { return weight(r.size + k.size()) }
	}
	own.guard, err = weir.NewFrom(weir.Source[Key, *response]{
		Cost: cost,
		LoadEntry: func(ctx context.Context, key Key, _ weir.Previous[*response]) (weir.Entry[*response], error) {
			return own.load(ctx, key)
		},
		Clone:     clone,
		Weigh:     weigh,
		KeyString: func(k Key) string { return k.hash(prefix) },
	}, g)
	return own, err
}

// classify returns the class of a failure: the user's, or one by its code.
func (p *policy) classify(err error) weir.Class {
	f := (*failure)(nil)
	switch {
	case errors.As(err, new(*absence)):
		return weir.ClassNotFound
	case !errors.As(err, &f):
		return weir.ClassTransient
	}
	if p.Guard.Classify != nil {
		return p.Guard.Classify(f.cause)
	}
	if errors.Is(f.cause, limit.ErrLimited) {
		return weir.ClassOverload
	}
	switch codeOf(f.err) {
	case codes.ResourceExhausted:
		return weir.ClassOverload
	case codes.Canceled:
		return weir.ClassCanceled
	case codes.DataLoss:
		return weir.ClassPermanent
	}
	return weir.ClassTransient
}

// An execution runs the method for a call, in the context of a shared execution.
type execution interface {
	run(ctx context.Context, key Key) (r *response, directives Directives, err error)
}

// A started is an execution in the context of the load that runs it.
type started struct {
	execution
	m *method

	one atomic.Bool // the call had a hit, or the load has begun; see both
}

// both is called when the call has had a hit, and when the load begins. The second time,
// the load is a refresh.
func (s *started) both() {
	if s.one.Swap(true) {
		s.m.counts.refreshes.Add(1)
	}
}

type executionKey struct{}

// load is the load of the policy's Guard. The execution is that of the call that
// started it.
func (p *policy) load(ctx context.Context, key Key) (weir.Entry[*response], error) {
	x, ok := ctx.Value(executionKey{}).(*started)
	if !ok {
		return weir.Entry[*response]{}, errors.New("weirgrpc: the Observer replaced the context of the load")
	}
	err := errBroken
	start := time.Now()
	x.both()
	x.m.counts.executions.Add(1)
	x.m.counts.executing.Add(1)
	defer func() {
		x.m.counts.executing.Add(-1)
		x.m.counts.executionTime.Record(time.Since(start))
		x.m.counts.ended(ctx, err)
	}()
	r, directives, cause := x.run(ctx, key)
	if r == nil {
		r = &response{}
	}
	err = statusOf(cause, false)
	cost := p.spent(key.Method, resultOf(r.msg, err), r.trailer, r.header)
	switch {
	case err != nil && !isAnswer(codeOf(err)):
		return weir.Entry[*response]{Cost: cost}, &failure{err: err, cause: cause, header: r.header, trailer: r.trailer, fleet: p.fleet}
	case err != nil:
		r.err = err
	case r.msg != nil:
		p.learn(r.msg)
	}
	r.private = r.raw != nil || directives.Private || isPrivate(r.header) || isPrivate(r.trailer)
	r.measure()
	e := p.entry(r, directives)
	e.Cost = cost
	if r.err != nil && codeOf(r.err) == codes.NotFound {
		e.Weight = weight(r.size + key.size())
		return e, &absence{r: r, fleet: p.fleet}
	}
	return e, nil
}

// weight returns the weight of size bytes, at most 2 GiB.
func weight(size int) uint32 { return uint32(min(int64(size), 1<<31)) } //nolint:gosec // bounded

// entry returns what the Guard is to do with r.
func (p *policy) entry(r *response, t Directives) weir.Entry[*response] {
	e := weir.Entry[*response]{
		Value: r,
		TTL:   t.TTL, StaleWhileRevalidate: t.StaleWhileRevalidate, StaleIfError: t.StaleIfError,
		Tags: t.Tags, NoStore: t.NoStore || r.private,
	}
	if r.err != nil {
		e.StaleWhileRevalidate, e.StaleIfError = weir.None, weir.None
		if t.TTL == 0 {
			e.TTL = p.Guard.NegativeTTL
		}
		if codeOf(r.err) != codes.NotFound || e.TTL <= 0 {
			e.NoStore = true
		}
	}
	return e
}

// shares reports whether p shares the calls of method.
func (p *policy) shares(method string) bool {
	switch p.Share {
	case ShareAll:
		return true
	case ShareNoSideEffects:
		return hasNoSideEffects(method)
	}
	return false
}

// hasNoSideEffects reports whether the definition of method, linked into the program,
// has the option idempotency_level = NO_SIDE_EFFECTS.
func hasNoSideEffects(method string) bool {
	name := protoreflect.FullName(strings.ReplaceAll(strings.TrimPrefix(method, "/"), "/", "."))
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return false
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return false
	}
	o, ok := m.Options().(*descriptorpb.MethodOptions)
	return ok && o.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS
}
