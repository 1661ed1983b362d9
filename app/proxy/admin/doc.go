// Package admin has the endpoints for operators of the proxy: the console, health and
// readiness, statistics, metrics, purge, explain, profiles. They have a separate listener
// and are never reachable on the listeners for clients (H20).
//
// A [console.Access] guards them. The Host of a request must be an address of the machine
// or a configured name, because a web page can make a browser send requests to any address
// under the page's own name (DNS rebinding). Requests from pages of other sites are
// rejected. If a token is set, which is required unless the listener is on loopback, every
// client must send it, a browser only once. /healthz and /readyz are open without it
// because probes have no credentials.
package admin
