package gateway

import "github.com/weir-go/weir/weirhttp"

// Handler returns the handler of a route, for inspection: its durations, its flights and
// its hot keys. It returns false if there is no such route. An Update may replace the
// handler.
func (g *Gateway) Handler(route string) (*weirhttp.Handler, bool) {
	for _, h := range g.now.Load().handlers {
		if h.route.Name == route {
			return h.http, true
		}
	}
	return nil, false
}
