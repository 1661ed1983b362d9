package rfc9111

import "time"

// A Standing is what a stored response may be used for at an instant, for one
// request.
type Standing struct {
	Age time.Duration
	TTL time.Duration // remaining freshness, negative when stale

	Fresh   bool // usable as it is: fresh, or stale within the request's max-stale
	SWR     bool // usable while it is revalidated: stale, and within the window
	IfError bool // usable if the origin fails, or weir is overloaded
	Offline bool // usable if the origin cannot be reached
}

// At returns the standing of r at now, for a request parsed as q.
//
// A request's no-cache, max-age and min-fresh override the window for background
// revalidation, but not the window for errors: there, a stale response is better
// than none (RFC 5861 section 4).
func (r *Response) At(now time.Time, q Request) Standing {
	s := Standing{Age: min(r.Age+min(max(now.Sub(r.Received), 0), longest), longest)}
	s.TTL = r.Lifetime - s.Age
	if r.Validate {
		return s
	}
	stale := -s.TTL // for how long
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
