package weirgrpc

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weir-go/weir/limit"
)

// asks remembers the type of the requests of a method, for the estimates of shared
// executions.
func (p *policy) asks(method string, of protoreflect.MessageType) {
	if p.Cost != nil {
		p.requests.LoadOrStore(method, of)
	}
}

// estimate is Source.Cost of the policy's Guard.
func (p *policy) estimate(key Key) int {
	of, ok := p.requests.Load(key.Method)
	if !ok {
		return 0
	}
	req := of.(protoreflect.MessageType).New().Interface()
	if (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal([]byte(key.message), req) != nil {
		return 0
	}
	return p.Cost(key.Method, req)
}

// spent returns what an execution with this response has cost, as weir.Entry.Cost has it.
func (p *policy) spent(method string, resp any) int {
	m, ok := resp.(proto.Message)
	if p.Cost == nil || p.Usage == nil || !ok || !m.ProtoReflect().IsValid() {
		return 0
	}
	units, ok := p.Usage(method, m)
	switch {
	case !ok:
		return 0
	case units <= 0:
		return -1
	}
	return units
}

// acquire gets a permit from by for a call with req, or for a stream if req is nil.
func (m *method) acquire(ctx context.Context, by limit.Limiter, req any) (limit.Permit, error) {
	if m.policy.Cost == nil {
		return by.Acquire(ctx)
	}
	msg, _ := req.(proto.Message)
	return limit.AcquireN(ctx, by, max(1, min(m.policy.Cost(m.name, msg), limit.MaxUnits)))
}
