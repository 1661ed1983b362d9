package rfc9111

// MayShare reports whether the response r to the request leader may also be used for a
// waiting request (H2, H3). The caller has established that both have the same key, and
// that both are GET requests without a body, or reads with the same body.
func MayShare(r *Response, leader, waiter *Request) bool {
	return r.Shared && waiter.Credentials&^r.Admits == 0 && Matches(r.Vary, Selecting(r.Vary, leader), waiter)
}
