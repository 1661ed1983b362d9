// Package forward passes one request to a server and returns its response,
// changing nothing that it does not have to (contract points H15, H17 and H18).
//
// A [Forwarder] is the handler: it decides what to send and relays the response.
// A [Transport] is the route to one server: it sends a request once, or not at
// all.
package forward
