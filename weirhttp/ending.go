package weirhttp

import "time"

// endGrace is how long a call whose response is to be stored may go on after its last
// client has left, if all of the body has arrived by then. Clients that know the length,
// or the terminal event of a stream, do not wait for the end of the message; the cache
// has to.
const endGrace = time.Second

// hasAll reports whether all of a body has arrived in s, as its clients see it: its
// length, or the terminal event of the stream that e follows.
func hasAll(s *sink, e *events) bool { return s.whole() || e.terminal() }
