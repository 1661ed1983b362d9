// Package load sends load to HTTP servers over real sockets and measures what
// comes back. The lab runs it in a process of its own, so that the generator's
// work is neither the server's nor the report's: [Main] reads a [Spec] and
// writes a [Result], both JSON; [Run] does the same in process.
//
// # Closed loop
//
// A number of clients, each of which sends its next request once the last one
// is answered, as ab, hey and wrk do. Such a loop slows down with its target:
// it says how much work gets done, not what happens to traffic that keeps
// coming. The loop is that of app/load, which `weir demo` runs, too.
//
// # Open loop
//
// Requests arrive at a constant rate, whatever the target does. All of them
// stand on one schedule: request i is due at start + i/rate. Its latency counts
// from then, not from when it was sent, so a target that stands still for a
// second shows up in every request that was due in that second, also in those
// that had to wait for a connection (coordinated omission is the name of the
// mistake that this avoids). No library that could be had measures that way,
// so the loop is ours.
//
// # The client
//
// Every client has its own connection to each host, and sends requests that
// were written out beforehand. The answers are read by fasthttp's parser
// (github.com/valyala/fasthttp), which knows Content-Length, chunked answers
// and answers that end with the connection.
//
// The clients share a request counter, as ab's do, so that the slowest of them
// is not left to send its part alone at the end.
//
// Redirects are answers like others and are not followed. A kept-alive
// connection that turns out to be closed before the first byte of an answer is
// replaced once, as the servers' idle timeouts demand (RFC 9112, section
// 9.3.1); the lost time counts.
package load
