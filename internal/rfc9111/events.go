package rfc9111

import (
	"net/http"
	"time"
)

// ReadEvents is Read for an event stream that a route shares, and stores for ttl once it
// is complete (H33). All that counts is compared, whatever the origin says. 0 for ttl
// means the lifetime of other responses.
//
// ttl replaces the freshness that the origin states, and no-cache does not count:
// servers send it with every event stream, so that browsers read the stream and not
// a copy. All else that forbids storing or sharing does count, even if Force is set.
// Where no-cache was ignored, the other directives next to it do not allow sharing
// between clients with credentials, because they were written for a response that is
// validated before each use.
func (p *Policy) ReadEvents(req *http.Request, q Request, status int, h http.Header, ttl time.Duration, sent, received time.Time) Response {
	own := *p
	own.strict = true
	if ttl > 0 {
		own.TTL, own.Force = ttl, false
	}
	d := own.directives(h)
	lifted := d.noCache && ttl > 0
	d.noCache = d.noCache && ttl <= 0
	return own.read(req, q, status, h, d, lifted, sent, received)
}
