// Package load sends load to HTTP servers over real sockets and measures the
// responses. The lab runs it in a separate process, so that the generator's CPU use
// does not mix with the server's: [Main] reads a [Spec] and writes a [Result], both
// JSON; [Run] does the same in process.
//
// # Closed loop
//
// Each of a number of clients sends its next request once the last one is answered, as
// in ab, hey and wrk. Such a loop slows down with its target: it measures throughput,
// not what happens to traffic that keeps arriving. The loop is that of app/load, which
// `weir demo` also runs.
//
// # Open loop
//
// Requests arrive at a constant rate, whatever the target does. All of them follow
// one schedule: request i is due at start + i/rate. Its latency counts from that time,
// not from when it was sent. So a target that freezes for a second shows in every
// request that was due in that second, including those that had to wait for a
// connection. This avoids the mistake known as coordinated omission. No available
// library measures that way, so the loop is our own.
//
// # The client
//
// Every client has its own connection to each host, and sends prepared requests. The
// responses are read by fasthttp's parser (github.com/valyala/fasthttp), which
// supports Content-Length, chunked responses and responses that end with the
// connection.
//
// The clients share a request counter, like ab's. With a fixed part for each, the
// slowest client would send its part alone at the end.
//
// Redirects are responses like any other and are not followed. A keep-alive
// connection that turns out to be closed before the first byte of a response is
// replaced once, because of servers' idle timeouts (RFC 9112, section 9.3.1); the
// lost time counts.
package load
