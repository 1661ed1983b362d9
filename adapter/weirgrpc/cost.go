package weirgrpc

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
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

// units returns what a call with req is expected to cost, or a stream if req is nil; 0
// without Cost.
func (m *method) units(req any) int {
	if m.policy.Cost == nil {
		return 0
	}
	msg, _ := req.(proto.Message)
	return max(1, min(m.policy.Cost(m.name, msg), limit.MaxUnits))
}

// spent returns what an execution with this response, trailer and header has cost, as
// weir.Entry.Cost has it. resp is nil for an error.
func (p *policy) spent(method string, resp any, trailer, header metadata.MD) int {
	if units := p.stated(trailer); units != 0 {
		return units
	}
	if units := p.stated(header); units != 0 {
		return units
	}
	return p.used(method, resp)
}

// used returns what Policy.Usage finds in a message, as weir.Entry.Cost has it.
func (p *policy) used(method string, resp any) int {
	m, ok := resp.(proto.Message)
	if p.Usage == nil || !ok || !m.ProtoReflect().IsValid() {
		return 0
	}
	units, ok := p.Usage(method, m)
	switch {
	case !ok:
		return 0
	case units <= 0:
		return -1
	}
	return min(units, limit.MaxUnits)
}

// stated returns the cost that md states, as weir.Entry.Cost has it. Of several values the
// last one counts: the handler's comes after those of interceptors before it.
func (p *policy) stated(md metadata.MD) int {
	if p.UsageKey == "" {
		return 0
	}
	values := md[p.UsageKey]
	if len(values) == 0 {
		return 0
	}
	text, n := values[len(values)-1], 0
	if text == "" || len(text) > maxUsageText {
		return 0
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0
		}
		n = min(n*10+int(text[i]-'0'), limit.MaxUnits)
	}
	if n == 0 {
		return -1
	}
	return n
}

// maxUsageText is the most digits that are read of a stated cost.
const maxUsageText = 20

// outgoing returns the trailer and the header that the server has set for the call with
// ctx: what the client sent is not in them. They are nil if the transport of the call
// does not tell; that of grpc.Server does.
func (p *policy) outgoing(ctx context.Context) (trailer, header metadata.MD) {
	if p.UsageKey == "" {
		return nil, nil
	}
	s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface {
		Trailer() metadata.MD
		Header() (metadata.MD, error)
	})
	if !ok {
		return nil, nil
	}
	header, _ = s.Header()
	return s.Trailer(), header
}

// listen returns opts with options that fill said, if a cost can be stated there.
func (p *policy) listen(opts []grpc.CallOption) (all []grpc.CallOption, said *metadataOf) {
	said = &metadataOf{}
	if p.UsageKey != "" {
		opts = append(opts[:len(opts):len(opts)], grpc.Header(&said.header), grpc.Trailer(&said.trailer))
	}
	return opts, said
}

// metadataOf is the metadata that a server has set.
type metadataOf struct{ header, trailer metadata.MD }

// resultOf returns resp unless there is an error.
func resultOf(resp any, err error) any {
	if err != nil {
		return nil
	}
	return resp
}

// acquire gets a permit from by for a call of that many units; 0 if they are not counted.
func acquire(ctx context.Context, by limit.Limiter, units int) (limit.Permit, error) {
	if units == 0 {
		return by.Acquire(ctx)
	}
	return limit.AcquireN(ctx, by, units)
}
