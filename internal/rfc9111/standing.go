package rfc9111

import "time"

// A Standing is how a stored response stands at an instant, for one request.
type Standing struct {
	Age time.Duration
	TTL time.Duration // what is left of the freshness, negative when stale

	Fresh   bool // may be used as it is: fresh, or stale within the request's max-stale
	SWR     bool // may be used while it is revalidated: stale, and within the window
	IfError bool // may be used if the origin fails, or we are overloaded
	Offline bool // may be used if the origin cannot be reached
}

// At tells how r stands at now for a request of which q was read.
//
// A request's no-cache, max-age and min-fresh outrank a window for revalidation
// in the background, but not those for errors: there, an answer is better than
// none (RFC 5861 section 4).
func (r *Response) At(now time.Time, q Request) Standing {
	s := Standing{Age: min(r.Age+min(max(now.Sub(r.Received), 0), longest), longest)}
	s.TTL = r.Lifetime - s.Age
	if r.Validate {
		return s
	}
	stale := -s.TTL // how long it has been
	asked := !q.NoCache && (q.MaxAge == None || s.Age <= q.MaxAge)
	if stale < 0 {
		s.Fresh = asked && s.TTL >= q.MinFresh
		s.IfError = r.StaleIfError > 0
		s.Offline = r.StaleOffline > 0
		return s
	}
	if r.MustRevalidate {
		return s
	}
	asked = asked && q.MinFresh == 0
	s.Fresh = asked && q.MaxStale != None && stale <= q.MaxStale
	s.SWR = asked && r.StaleWhileRevalidate > 0 && stale <= r.StaleWhileRevalidate
	s.IfError = r.StaleIfError > 0 && stale <= r.StaleIfError
	s.Offline = r.StaleOffline > 0 && stale <= r.StaleOffline
	return s
}
