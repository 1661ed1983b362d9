package forward

import "context"

// A Side is one of two calls that a Forwarder's RoundTrip makes for one request. What is known of
// its server's work is kept apart from the other call's.
type Side struct{ x *relay }

// Apart returns a context for such a call, made from the request's. With quiet, no 1xx
// responses to the call reach the client: only the other call's do. Without a Forwarder, the
// Side is nil.
func Apart(ctx context.Context, quiet bool) (context.Context, *Side) {
	main, ok := ctx.Value(relayKey{}).(*relay)
	if !ok {
		return ctx, nil
	}
	x := &relay{f: main.f, main: main, quiet: quiet}
	x.Start(ctx)
	return x, &Side{x}
}

// Working returns, for a call that has returned because it was given up, a channel that is closed
// when its server has responded or closed the connection. It is nil if the server does not work
// for the call any more, or if that cannot be seen.
func (s *Side) Working() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.x.working
}

// Left records that the client has left during the call: what is known of its server's work is
// the request's. The call must have returned.
func (s *Side) Left() {
	if s != nil && s.x.sent {
		s.x.main.sent, s.x.main.working = true, s.x.working
	}
}
