package weirgrpc

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/weir-go/weir/limit"
)

// A bill is what a stream costs. It takes the estimate from Policy.Budget, at the latest
// before the stream does any work, and settles it as the cost becomes better known. It is
// safe for concurrent use, because streams send and receive at the same time.
type bill struct {
	e     *engine
	m     *method
	first sync.Once // the estimate is taken, or it is too late to take it

	// ctx ends with the stream, so that nothing waits for the budget of a stream that is
	// over.
	ctx    context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	permit  limit.Permit // guarded by mu
	units   int          // guarded by mu: the estimate, then what was stated
	stated  bool         // guarded by mu: units were stated
	refused error        // guarded by mu: what the stream fails with
	busy    int          // guarded by mu: messages that are being received
	over    bool         // guarded by mu: the stream has ended
	final   bool         // guarded by mu: units do not change any more
}

// A stream is a stream that was admitted.
type stream struct {
	seen         // with the context of the stream
	bill   *bill // nil if cost is not counted
	permit limit.Permit
}

// open admits a stream. oneRequest says that its client sends one message: the estimate
// waits for that. The limit of streams does not, because a client can open streams and send
// nothing.
func (e *engine) open(ctx context.Context, m *method, oneRequest bool) (*stream, error) {
	began := time.Now()
	var b *bill
	if m.policy.Cost != nil {
		b = &bill{e: e, m: m}
	}
	var p limit.Permit
	var err error
	if b != nil && !oneRequest {
		b.units = m.units(nil)
		b.first.Do(func() {})
		b.permit, err = e.admit(ctx, m, m.policy.streams, b.units)
	} else {
		p, err = e.admit(ctx, m, m.policy.calls, 0)
	}
	if err != nil {
		return nil, err
	}
	m.counts.streams.Add(1)
	m.counts.executions.Add(1)
	m.counts.running.Add(1)
	s := &stream{seen: seen{ctx: ctx, e: e, m: m, queued: time.Since(began), stream: true}, bill: b, permit: p}
	s.begin()
	if b != nil {
		b.ctx, b.cancel = context.WithCancel(s.ctx)
	}
	return s, nil
}

// end is called once, when the stream has ended with err, however it did, with its trailer
// and header.
func (s *stream) end(err error, trailer, header metadata.MD) {
	s.m.counts.ended(s.ctx, err)
	received := err
	if s.bill != nil {
		s.bill.end(trailer, header)
		if refused := s.bill.refusal(); refused != nil {
			received = refused
		}
	}
	if received == err { //nolint:errorlint // otherwise admit has counted it
		s.m.counts.ranAlone(s.ctx, err)
	}
	s.m.counts.answered(s.ctx, received)
	s.m.counts.running.Add(-1)
	s.permit.Release(streamOutcome)
	s.seen.end(err)
}

// request takes the estimate for the first message of a stream, or for a stream that sends
// before it receives, with a nil msg. It returns the error of a stream that was refused.
func (b *bill) request(msg any) error {
	b.first.Do(func() {
		units := b.m.units(msg)
		p, err := b.e.admit(b.ctx, b.m, b.m.policy.budget, units)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.refused = err; err == nil {
			b.permit, b.units = p, units
		}
	})
	return b.refusal()
}

// refusal returns the error of a stream that was refused.
func (b *bill) refusal() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// response settles what a message of the server states.
func (b *bill) response(msg any) { b.settle(b.m.policy.used(b.m.name, msg), false) }

// settle sets what the stream costs, as weir.Entry.Cost has it.
func (b *bill) settle(units int, final bool) {
	if units == 0 {
		return
	}
	b.mu.Lock()
	ok := !b.final && b.refused == nil
	if ok {
		b.units, b.stated, b.final = max(units, 0), true, final
	}
	permit := b.permit
	b.mu.Unlock()
	if ok {
		permit.Settle(units)
	}
}

// receiving says that a message is about to be received, and received that this has
// ended. The end of the stream waits for it:
//
//	A: RecvMsg takes the last message, and ends the stream with it
//	A: the stream's OnFinish calls end, which would release the permit
//	A: RecvMsg returns; Usage finds the cost in the message
func (b *bill) receiving() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy++
}

func (b *bill) received() {
	b.mu.Lock()
	b.busy--
	ended := b.over && b.busy == 0
	b.mu.Unlock()
	if ended {
		b.release()
	}
}

// end is called once, when the stream has ended, however it did, with its trailer and
// header. What was stated last stands, or else the estimate.
func (b *bill) end(trailer, header metadata.MD) {
	b.cancel()
	b.first.Do(func() {}) // a request that comes now takes nothing
	units := b.m.policy.stated(trailer)
	if units == 0 {
		units = b.m.policy.stated(header)
	}
	b.settle(units, true)
	b.mu.Lock()
	b.over = true
	ended := b.busy == 0
	b.mu.Unlock()
	if ended {
		b.release()
	}
}

// release gives the permit back. It is called once.
func (b *bill) release() {
	b.mu.Lock()
	b.final = true
	permit, units, stated := b.permit, b.units, b.stated
	b.mu.Unlock()
	if stated {
		permit.Settle(units) // messages of several goroutines can settle in any order
	}
	b.m.counts.costSpent.Add(uint64(units)) //nolint:gosec // never negative
	permit.Release(streamOutcome)
}

// A billedServerStream bills the messages of a server's stream.
type billedServerStream struct {
	grpc.ServerStream
	bill *bill
}

// RecvMsg implements grpc.ServerStream.
func (s billedServerStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return s.bill.request(m)
}

// SendMsg implements grpc.ServerStream.
func (s billedServerStream) SendMsg(m any) error {
	if err := s.bill.request(nil); err != nil {
		return err
	}
	s.bill.response(m)
	return s.ServerStream.SendMsg(m)
}

// A billedClientStream bills the messages of a client's stream.
type billedClientStream struct {
	grpc.ClientStream
	bill *bill
	quit func() // ends the stream
}

// SendMsg implements grpc.ClientStream. A stream that is refused ends: its caller may have
// no other way to end it.
func (s billedClientStream) SendMsg(m any) error {
	if err := s.bill.request(m); err != nil {
		s.quit()
		return err
	}
	return s.ClientStream.SendMsg(m)
}

// RecvMsg implements grpc.ClientStream.
func (s billedClientStream) RecvMsg(m any) error {
	s.bill.receiving()
	defer s.bill.received()
	err := s.ClientStream.RecvMsg(m)
	if err == nil {
		s.bill.response(m)
	}
	return err
}
