// Package listen has the proxy's listeners: a socket, the HTTP server on it,
// TLS with certificates that are replaced when their files change, the PROXY
// protocol, time-outs that cut clients who are too slow (H19), and, below
// net/http, a check of how requests are framed (H18) and a faster way to answer
// from the store (H31).
//
// Slow is who makes no progress, however much is left to do: a client may take
// an hour for a big answer if it keeps taking some of it. Three places look:
// the head of a request has one time-out as a whole (net/http's), each read of
// its body has one, and each write to the client has one that starts again
// when the client has taken something: who takes nothing is cut after one to two
// time-outs.
package listen
