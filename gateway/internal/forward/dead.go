package forward

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/weir-go/weir/gateway/internal/fault"
)

// deadFor is how long a failed dial stands for the next ones to the same server: it is
// dialled at most once in that time, and a server that has recovered is used at most that
// much later.
const deadFor = 20 * time.Millisecond

// A dead remembers that a server cannot be dialled. A server that refuses connections does
// so within microseconds, and without a bound each request of a busy route would dial it,
// with a port and system calls that the other servers and the clients need.
type dead struct {
	mu    sync.Mutex
	err   error     // guarded by mu; of the latest dial, nil if that succeeded
	until time.Time // guarded by mu; err stands until then
}

// fails returns the error of the latest dial if it still stands. If it no longer does, the
// caller dials, and err stands for the others for another deadFor: otherwise all requests
// of that moment would dial.
func (d *dead) fails(now time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil || now.Before(d.until) {
		return d.err
	}
	d.until = now.Add(deadFor)
	return nil
}

// dialled records the outcome of a dial.
func (d *dead) dialled(err error, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.until = err, now.Add(deadFor)
}

// open opens a connection to the server's address, unless the latest attempt has just
// failed.
//
// Failures that say nothing about the server are not remembered: the caller has left, its
// time is over, or this machine has no ports left.
func (t *Transport) open(ctx context.Context, network, address string) (net.Conn, error) {
	if err := t.dead.fails(time.Now()); err != nil {
		return nil, &fault.UnreachableError{Err: err}
	}
	if t.o.Address.IsValid() {
		address = t.o.Address.String()
	}
	nc, err := t.o.Dial(ctx, network, address)
	switch {
	case err == nil:
		t.dead.dialled(nil, time.Now())
		return nc, nil
	case ours(err):
		return nil, &fault.UnreachableError{Err: err, Ours: true}
	case ctx.Err() == nil:
		t.dead.dialled(err, time.Now())
	}
	return nil, &fault.UnreachableError{Err: err}
}
