// Package proxy is the program weir proxy: a gateway behind listeners, from its
// start over reloads of its configuration to an end that loses no request.
//
// # Life
//
// Start opens every listener before it accepts anything: either all of them
// work, or the program ends and says which does not. A reload (SIGHUP) is the
// same once more. The new configuration is read and checked, its new listeners
// are opened, the gateway is updated, and only then anything old is let go; an
// error before that leaves everything as it was. A listener whose address stays
// keeps its socket, even if its other settings change.
//
// The end (SIGTERM, SIGINT) has four steps: not ready any more, while
// connections are still accepted for the drain delay; then sockets are closed,
// and connections without a request half a second later, as one may be on its
// way; requests that are being answered have the drain timeout to end; what is
// left is cut, which makes the end a failure.
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
