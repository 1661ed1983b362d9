// Package listen provides the proxy's listeners: a socket, the HTTP server on it, TLS
// with certificates that are replaced when their files change, the PROXY protocol, and
// time-outs that cut off slow clients (H19). Below net/http it adds a check of request
// framing (H18) and a faster way to serve
// plain requests (H31).
//
// A client is slow if it makes no progress, however much is left to do: it can take an
// hour for a big response as long as it keeps reading. Three time-outs apply. The
// header of a request has one time-out as a whole (net/http's), and each read of its
// body has one. Each write to the client has one that restarts when the client has read
// something: a client that reads nothing is cut off after one to two time-outs.
package listen
