package weirhttp

import (
	"errors"
	"net/http"
)

// ErrPrivateCache is matched by the error of [New], [NewTransport],
// [NewPrivateTransport], [Cache.JoinFleet] and [Cache.OpenFolder] for a Cache of which
// one user is a private Transport, and another is anything else.
var ErrPrivateCache = errors.New("weirhttp: a private Transport shares its cache with nothing else")

// NewPrivateTransport is [NewTransport] with a private cache (RFC 9111 section 1): for
// the client of one user, and for the client of an API that sends tokens.
//
//   - Responses with private are stored, and so are those to requests with
//     Authorization or Cookie.
//   - Responses with a validator and without freshness are stored, and validated before
//     each use, so that the origin sends a 304 instead of the body.
//   - s-maxage, proxy-revalidate and Policy.Targeted do not apply. Responses with
//     Set-Cookie are not stored, as ever.
//
// Should several users be behind it, they share nothing as long as their requests tell
// them apart: Authorization, Cookie and every other field that counts are compared.
// Users that only base tells apart, by a client certificate or by a field that it adds,
// need separate Transports, or Options.Identity.
//
// Options.Cache, if it is set, is for this Transport alone. A private Transport is in
// no fleet, and has no folder.
func NewPrivateTransport(base http.RoundTripper, o Options) (*Transport, error) {
	if o.Fleet.Tier != nil {
		return nil, &OptionError{Package: "weirhttp", Field: "Options.Fleet", Value: "a Tier", Bound: "none: the instances of a fleet share responses"}
	}
	return newTransport(base, o, true)
}

// A cacheUse is whose responses a Cache has.
type cacheUse uint8

const (
	unused cacheUse = iota
	usedByAll
	usedPrivately
)

// claim records that a Handler or Transport uses c. It fails if the responses of a
// private Transport could be found by another, which may stand for other users. c never
// becomes free again, because it keeps its responses.
func (c *Cache) claim(private bool) error {
	c.joining.Lock()
	defer c.joining.Unlock()
	switch {
	case c.use == usedPrivately, private && (c.use != unused || c.fleet.Load() != nil || c.folder.Load() != nil):
		return ErrPrivateCache
	case private:
		c.use = usedPrivately
	default:
		c.use = usedByAll
	}
	return nil
}
