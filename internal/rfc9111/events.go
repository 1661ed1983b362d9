package rfc9111

import (
	"net/http"
	"time"
)

// ReadEvents is Read for a complete event stream that a route stores for ttl (H33).
//
// ttl replaces the freshness that the origin states, and no-cache does not count:
// servers send it with every event stream, so that browsers read the stream and not
// a copy. All else that forbids storing or sharing does count, even if Force is set.
// Where no-cache was ignored, the other directives next to it do not allow sharing
// between clients with credentials, because they were written for a response that is
// validated before each use.
func (p *Policy) ReadEvents(req *http.Request, q Request, status int, h http.Header, ttl time.Duration, sent, received time.Time) Response {
	own := *p
	own.TTL, own.Force = ttl, false
	d := own.directives(h)
	lifted := d.noCache
	d.noCache = false
	return own.read(req, q, status, h, d, lifted, sent, received)
}
