// Package httpwire reads the framing of HTTP/1 (RFC 9112) off the wire, byte by
// byte, and refuses what two readers could take for two different things: H18
// for requests, H5 for answers.
//
// A [Scanner] is for one direction of one connection. It keeps no bytes and
// allocates nothing: it looks at the bytes where they lie, in pieces of any
// size, and says where a head ends, where a message ends, and at which byte the
// message is at fault. What the fields mean beyond the framing is for net/http,
// which reads the same bytes afterwards; all that the Scanner lets through,
// net/http frames in the same way or refuses.
package httpwire
