package weirhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/weir-go/weir/internal/alarm"
	"github.com/weir-go/weir/internal/lend"
	"github.com/weir-go/weir/internal/slow"
	"github.com/weir-go/weir/limit"
)

// A ticket is what one call holds: what its client has paid, the charge to the budget,
// the permit, and the clients that it waits for. Before the call it is paid (pay) and
// gets its permit (acquire); the end of the call settles it. close is deferred, and gives
// back what is left: everything of a call that was not made, and all but the price of one
// that ended with a panic or runtime.Goexit.
//
// It belongs to the goroutine of the call.
type ticket struct {
	h       *Handler
	due     invoice // what the client that starts the call has to pay
	bill    *bill   // of the client that started the call; charge has it, too, once there is a permit
	charge  *charge
	permit  limit.Permit
	alarm   alarm.Alarm // for all time-outs of the call
	clients slow.Client // the client of the response, or the readers of a shared one
	// admitted: there is a permit, so the call is made.
	admitted bool
	stream   bool // it is counted in Stats.Streams
	own      bool // the server received the deadline of one client
	nested   *lend.Edge
	origin   *ForwardError // what the forwarder knows of a call whose client has left, or nil
}

// pay lets the client pay what is due.
func (t *ticket) pay(ctx context.Context) (err error) {
	t.bill, err = t.due.pay(ctx)
	return err
}

// acquire takes the estimate of r from the budget, and then a permit. It may be called
// again after an error.
func (t *ticket) acquire(ctx context.Context, r *http.Request, permit func(context.Context) (limit.Permit, error)) (err error) {
	if !t.stream {
		t.h.press()
	}
	if t.charge, err = t.h.charge(ctx, r); err != nil {
		return err
	}
	defer func() { // deferred, because a Limiter can panic
		if !t.admitted {
			t.charge.undo()
		}
	}()
	if t.permit, err = permit(ctx); err != nil {
		return err
	}
	t.admitted = true
	t.charge.bills(t.bill)
	if !t.stream {
		t.clients.Hold(t.h.crowds)
	}
	return nil
}

// streams counts the call as a stream.
func (t *ticket) streams() {
	if !t.stream {
		t.stream = true
		t.h.count.streams.Add(1)
	}
}

// endless records that the response has no end. If the call has the permit of a call, that
// is exchanged for one of Options.Streams, if one is free; asCall keeps it.
func (t *ticket) endless(ctx context.Context, asCall bool) {
	t.clients.Endless()
	if t.stream {
		return
	}
	t.streams()
	if asCall {
		return
	}
	if p, err := t.h.o.Streams.Acquire(ctx); err == nil {
		t.permit.Release(limit.Ignored)
		t.permit = p
	}
}

// handOver records that the origin has done its part of a response with this status: the
// rest is buffered here, and a client that takes it slowly needs no permit.
func (t *ticket) handOver(status int) {
	t.permit.Release(t.outcome(status, nil))
	t.clients.Leave()
}

// fails is called with the error of a forwarder that has no response.
func (t *ticket) fails(err error) {
	if f := (*ForwardError)(nil); errors.As(err, &f) && f.Sent {
		t.origin = f
	}
}

// outcome is what the limiter learns of the call. A client must not be able to make an origin look
// overloaded with the deadline that it states.
func (t *ticket) outcome(status int, err error) limit.Outcome {
	if t.own && err == nil && status == http.StatusGatewayTimeout {
		return limit.Ignored
	}
	return outcome(status, err)
}

// settle is called when the call has ended, which began at start, with the status of the
// response, 0 without one, and the error.
// ctx is the context of the call.
func (t *ticket) settle(ctx context.Context, status int, err error, start time.Time) {
	if status == 0 && ctx.Err() != nil {
		t.permit.Abandon() // its clients have left, or it has taken too long
	}
	if given := givenUp(err); status == 0 && given != 0 {
		status, err = given, nil
	}
	if status == 0 && t.origin != nil && !t.h.o.ReleaseAbandoned {
		t.leave(time.Since(start))
	}
	t.permit.Release(t.outcome(status, err))
	t.charge.finish(status, err)
}

// leave lets the permit outlive the call, which was given up after taken: the origin may
// still work on it.
func (t *ticket) leave(taken time.Duration) {
	h, permit, ended := t.h, t.permit, t.origin.Ended
	rest := h.work.rest(taken, h.o.HeadTimeout, ended != nil)
	if rest <= 0 {
		return
	}
	t.permit = limit.Permit{}
	h.count.leftRunning.Add(1)
	release := func() {
		permit.Release(limit.Ignored)
		h.count.leftRunning.Add(-1)
	}
	timer := time.AfterFunc(rest, release)
	if ended == nil {
		return
	}
	go func() {
		select {
		case <-ended:
			if timer.Stop() {
				release()
			}
		case <-h.open.Done(): // and the timer releases it
		}
	}()
}

// close gives back what is still held.
func (t *ticket) close() {
	t.permit.Release(limit.Ignored)
	if t.stream {
		t.h.count.streams.Add(-1)
	}
	t.clients.Close()
	t.alarm.Stop()
	if t.admitted {
		t.charge.end(limit.Ignored)
	}
	t.nested.End()
	t.bill.undo() // does nothing for a call that has ended
}
