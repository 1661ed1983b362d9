package gateway

import (
	"context"
	"net/http"

	"github.com/weir-go/weir/gateway/internal/forward"
	"github.com/weir-go/weir/weirhttp"
	"github.com/weir-go/weir/weirhttp/cdnloop"
)

// boundKey is the context key of a *bound.
type boundKey struct{}

// A bound is the response that a request gets, whatever happens to the store or to the
// configuration in the meantime.
type bound struct {
	gateway *Gateway
	route   string
	stored  *weirhttp.Stored
}

// Stored returns r with the context ctx, bound to the fresh response that is stored for it,
// and true. ServeHTTP then answers the returned request with that response, or with a
// refusal of the route's Rate, and neither calls an upstream nor waits. Servers with a
// faster way to write such responses use it. If there is no such response, it returns r and
// false. Nothing is counted.
func (g *Gateway) Stored(ctx context.Context, r *http.Request) (*http.Request, bool) {
	s := g.now.Load()
	if status, _ := forward.Refusal(http.Header{}, r); status != 0 || g.closed.Load() ||
		cdnloop.Passes(r.Header, g.loopID) >= s.passes() {
		return r, false
	}
	h := s.find(r)
	if h == nil || h.route.Rewrite != nil || !h.maps(r) {
		return r, false
	}
	if s.config.Front != nil && s.config.Front(h.route.Name) != nil {
		return r, false
	}
	b := &bound{gateway: g, route: h.route.Name}
	own := r.WithContext(context.WithValue(ctx, boundKey{}, b))
	if b.stored = h.http.Stored(own); b.stored == nil {
		return r, false
	}
	return own, true
}
