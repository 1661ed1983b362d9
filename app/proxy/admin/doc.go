// Package admin has the endpoints for operators of the proxy: the console,
// health and readiness, statistics, metrics, purging, explaining, profiles. They
// stand on a listener of their own, never beside the traffic (H20).
//
// A [console.Access] guards them. The Host of a request has to be an address of
// the machine or a name that the operator gave, as a web page can make a browser
// send requests to any address under the page's own name (DNS rebinding). No
// request may come from another site's page. And where a token is set, which has
// to be so when the listener is not on loopback, it has to be sent, by a browser
// once; /healthz and /readyz are open without it, since probes have no secrets.
package admin
