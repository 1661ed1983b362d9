// Package forward passes one request on to a server and its answer back, and
// changes nothing on the way that it does not have to (contract points H15, H17
// and H18).
//
// A [Forwarder] is the handler: it decides what is sent and relays what comes. A
// [Transport] is the way to one server: it sends a request once, or not at all.
package forward
