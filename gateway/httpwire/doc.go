// Package httpwire reads the framing of HTTP/1 (RFC 9112) from the wire, byte by
// byte, and rejects messages that two readers could frame differently: H18 for
// requests, H5 for responses.
//
// A [Scanner] reads one direction of one connection. It keeps no bytes and allocates
// nothing: it reads the bytes in place, in pieces of any size, and reports where a head
// ends, where a message ends, and at which byte a message is invalid. It does not interpret
// fields beyond the framing: net/http reads the same bytes afterwards, and either frames
// what the Scanner accepts in the same way or rejects it.
//
// A [Fields] writes fields as net/http does.
package httpwire
