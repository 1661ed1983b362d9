// Package admin has the endpoints for those who run the proxy: health and
// readiness, statistics, purging, explaining, profiles. They stand on a
// listener of their own, never beside the traffic (H20).
//
// Three things guard them. The Host of a request has to be an address of the
// machine or a name that the operator gave, as a web page can make a browser
// send requests to any address under the page's own name (DNS rebinding).
// Requests that change something must not come from another site's page
// ([net/http.CrossOriginProtection]). And where a token is set, which has to be
// so when the listener is not on loopback, it has to be sent; /healthz and
// /readyz are open without it, since probes have no secrets.
package admin
