// Package proxy implements the program weir proxy: a gateway with its listeners, from
// startup through configuration reloads to a shutdown that loses no request.
//
// # Life
//
// At startup every listener is opened before any of them accepts a connection: either
// all of them work, or the program exits and reports which ones failed. A reload
// (SIGHUP) follows the same order. The new configuration is read and checked, its new
// listeners are opened, the gateway is updated, and only then are the old listeners
// closed; an error before that leaves everything as it was. A listener whose address
// stays the same keeps its socket, even if its other settings change.
//
// Shutdown (SIGTERM, SIGINT) has four steps. First the proxy reports that it is not
// ready, but still accepts connections for the drain delay. Then it closes its sockets,
// and half a second later the connections without a request, because one can be on its
// way. Requests in progress have the drain timeout to finish. Those that are left are
// cut off, and the program exits with an error.
//
// # Jobs
//
// Package jobshttp turns the requests of routes with jobs into jobs. Workers
// execute them by calling the same route of the gateway, past its limits for
// clients. When the drain closes the sockets, clients that wait for a job get a
// response, and workers take no new jobs. Jobs they have not finished within the
// drain timeout are handed back, which is not a failure. A separate worker is the
// same program without listeners for clients.
package proxy
