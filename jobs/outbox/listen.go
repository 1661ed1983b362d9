package outbox

import (
	"context"
	"fmt"
	"time"
)

const (
	minListenRetry = time.Second
	maxListenRetry = 30 * time.Second
	// listenTimeout bounds the opening and the closing of a Listener.
	listenTimeout = 10 * time.Second
)

// listen keeps a Listener open until ctx ends. Whenever one has been opened, all lanes
// look for rows, because notifications of the time before are lost.
func (r *Relay) listen(ctx context.Context) {
	retry := minListenRetry
	for ctx.Err() == nil {
		err := r.receive(ctx, func() { retry = minListenRetry })
		if ctx.Err() != nil {
			return
		}
		r.trouble(ctx, "", "", fmt.Errorf("outbox: listen: %w", err))
		sleep(ctx, retry, nil)
		retry = min(2*retry, maxListenRetry)
	}
}

// receive opens a Listener and wakes lanes until it fails. A panic in the Listener is
// an error.
func (r *Relay) receive(ctx context.Context, opened func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	opening, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	l, err := r.o.Listen(opening)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), listenTimeout)
		defer cancel()
		_ = l.Close(closing) // the connection is given up in any case
	}()
	opened()
	r.Wake("")
	for {
		queue, err := l.Wait(ctx)
		if err != nil {
			return err
		}
		r.counts.notified.Add(1)
		if lane := r.lanes[queue]; lane != nil {
			lane.wakeUp()
		}
	}
}
