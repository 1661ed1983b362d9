package weirgrpc

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/weir-go/weir/fleet"
)

// A response is the result of a shared execution. It does not change.
type response struct {
	msg             proto.Message // nil for an error, and with raw
	raw             any           // a response that is no proto.Message
	err             error         // a code that is a response, such as NotFound
	header, trailer metadata.MD
	private         bool // only for the caller that started the execution
	exact           bool // proto.Clone would change msg
	size            int  // bytes, approximately
}

// forCaller returns r with a copy of the message.
func (r *response) forCaller() *response {
	if r == nil || r.msg == nil {
		return r
	}
	own := *r
	own.msg = r.message()
	return &own
}

// keep sets the message to a copy of m. proto.Clone, and proto.Merge, lose a negative zero
// in a field without presence; the size of the message tells.
func (r *response) keep(m proto.Message) {
	r.msg = proto.Clone(m)
	if r.exact = proto.Size(r.msg) != proto.Size(m); r.exact {
		r.msg = recode(m)
	}
}

// message returns a copy of the message.
func (r *response) message() proto.Message {
	if r.exact {
		return recode(r.msg)
	}
	return proto.Clone(r.msg)
}

// recode returns a copy of m by its encoding. A message that cannot be encoded has no more
// to lose in a response.
func recode(m proto.Message) proto.Message {
	c := m.ProtoReflect().New().Interface()
	b, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil || (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(b, c) != nil {
		return proto.Clone(m)
	}
	return c
}

// overhead is what an entry takes in memory in addition to its contents, in bytes.
const overhead = 256

// measure sets r.size.
func (r *response) measure() {
	r.size = overhead
	if r.msg != nil {
		r.size += proto.Size(r.msg)
	}
	for _, md := range []metadata.MD{r.header, r.trailer} {
		for k, values := range md {
			r.size += len(k)
			for _, v := range values {
				r.size += len(v)
			}
		}
	}
}

// codec encodes responses for a fleet. It finds the type of a message among those that
// this process has seen for the policy, or in the global registry.
type codec struct{ p *policy }

var _ fleet.Codec = codec{}

var errWire = errors.New("weirgrpc: not a response in a known version")

// Name implements fleet.Codec.
func (codec) Name() string { return "weirgrpc1" }

// Marshal implements fleet.Codec.
func (codec) Marshal(v any) ([]byte, error) {
	r, ok := v.(*response)
	if !ok || r == nil || r.private || r.raw != nil {
		return nil, fmt.Errorf("weirgrpc: a %T is not for other instances", v)
	}
	var name string
	var message, state []byte
	var err error
	if r.msg != nil {
		name = string(r.msg.ProtoReflect().Descriptor().FullName())
		if message, err = proto.Marshal(r.msg); err != nil {
			return nil, err
		}
	}
	if r.err != nil {
		if state, err = proto.Marshal(status.Convert(r.err).Proto()); err != nil {
			return nil, err
		}
	}
	b := appendString(nil, name)
	b = appendString(b, string(message))
	b = appendString(b, string(state))
	return appendMetadata(appendMetadata(b, r.header), r.trailer), nil
}

// Unmarshal implements fleet.Codec.
func (c codec) Unmarshal(data []byte, v any) error {
	to, ok := v.(**response)
	if !ok {
		return errWire
	}
	in := &reader{b: data}
	name, message, state := in.text(), in.text(), in.text()
	r := &response{header: in.metadata(), trailer: in.metadata()}
	if in.failed || len(in.b) > 0 {
		return errWire
	}
	if name != "" {
		of, err := c.p.typeOf(protoreflect.FullName(name))
		if err != nil {
			return err
		}
		m := of.New().Interface()
		if err := proto.Unmarshal([]byte(message), m); err != nil {
			return err
		}
		r.keep(m)
	} else {
		var s spb.Status
		if err := proto.Unmarshal([]byte(state), &s); err != nil {
			return err
		}
		if r.err = status.ErrorProto(&s); r.err == nil {
			return errWire
		}
	}
	r.measure()
	*to = r
	return nil
}

// learn remembers the type of a message.
func (p *policy) learn(m proto.Message) {
	of := m.ProtoReflect().Type()
	if name := of.Descriptor().FullName(); p.fleet {
		p.types.LoadOrStore(name, of)
	}
}

// typeOf returns the type of the messages called name.
func (p *policy) typeOf(name protoreflect.FullName) (protoreflect.MessageType, error) {
	if of, ok := p.types.Load(name); ok {
		return of.(protoreflect.MessageType), nil
	}
	return protoregistry.GlobalTypes.FindMessageByName(name)
}

// appendMetadata appends md to b, in the order of its keys.
func appendMetadata(b []byte, md metadata.MD) []byte {
	b = binary.AppendUvarint(b, uint64(len(md)))
	for _, k := range slices.Sorted(maps.Keys(md)) {
		b = appendString(b, k)
		b = binary.AppendUvarint(b, uint64(len(md[k])))
		for _, v := range md[k] {
			b = appendString(b, v)
		}
	}
	return b
}

// A reader reads what appendString and appendMetadata have written.
type reader struct {
	b      []byte
	failed bool
}

// number reads a count of things that take at least a byte each.
func (r *reader) number() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)-size) {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *reader) text() string {
	n := r.number()
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) metadata() metadata.MD {
	n := r.number()
	if n == 0 {
		return nil
	}
	md := make(metadata.MD)
	for range n {
		k := r.text()
		for range r.number() {
			md[k] = append(md[k], r.text())
		}
		if r.failed {
			return nil
		}
	}
	return md
}
